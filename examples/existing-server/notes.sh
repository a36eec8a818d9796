#!/bin/sh
# A server as people have them: it speaks one revision over its standard streams, knows no tasks, and keeps its callers waiting.
# It reads its own client's messages and no others, one JSON object a line.

result() {
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"
}

while IFS= read -r line; do
    id=${line#*\"id\":} id=${id%%,*}
    method=${line#*\"method\":\"} method=${method%%\"*}
    case $method in
    initialize)
        result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"notes","version":"1.0.0"}}'
        ;;
    tools/list)
        result '{"tools":[{"name":"index","description":"Count the words of all notes","inputSchema":{"type":"object"}}]}'
        ;;
    tools/call)
        sleep "${NOTES_PAUSE:-10}"
        result "{\"content\":[{\"type\":\"text\",\"text\":\"$(($(cat -- *.txt | wc -w))) words\"}]}"
        ;;
    resources/list)
        result '{"resources":[{"uri":"notes://today","name":"today","mimeType":"text/plain"}]}'
        ;;
    resources/read)
        result "{\"contents\":[{\"uri\":\"notes://today\",\"mimeType\":\"text/plain\",\"text\":\"$(tr '\n' ' ' <today.txt)\"}]}"
        ;;
    prompts/list)
        result '{"prompts":[{"name":"summary","description":"Sum the notes up"}]}'
        ;;
    prompts/get)
        result '{"messages":[{"role":"user","content":{"type":"text","text":"Read notes://today and sum it up in a line."}}]}'
        ;;
    notifications/*) ;;
    *)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}\n' "$id"
        ;;
    esac
done
