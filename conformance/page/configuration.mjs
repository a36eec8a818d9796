// What the program serves whose pages are looked at.

import { fileURLToPath } from "node:url";

/** Writes what would do harm if anything of it were believed, and then a line each few milliseconds. */
const HOSTILE = `<script>document.title='owned'</script><img src=x onerror="document.title='owned'">`;

/** Commands, a server that asks, and one of everything that people look at. */
export const CONFIG = `
[server]
name = "ci <b>1</b>"

[tools.count]
description = "Counts, a line each, to \`to\`"
command = ["sh", "-c", "i=0; while [ $i -lt $1 ]; do i=$((i+1)); echo line $i; sleep 0.01; done", "count", "{to}"]
input.to = { type = "integer", description = "How far", default = 400 }
task = "always"

[tools.hostile]
description = "Says what nobody should believe ${HOSTILE.replaceAll('"', '\\"')}"
command = ["printf", '%b', '${HOSTILE.replaceAll("'", "`")}\\0033]52;c;aGk=\\0007\\0033[2J \\0342\\0200\\0256evil\\n']
task = "always"

[tools.colours]
description = "Tests, and says so in colour"
command = ["printf", '%b', '\\0033[32mok\\0033[0m one\\n\\0033[1;31mFAILED\\0033[0m two\\n\\0033[36mok\\0033[0m th\\0033[35mr\\0033[34me\\0033[33me\\n\\0033[90mfaint\\n']
task = "always"

[tools.flood]
description = "Writes more than a page holds, once it is followed"
command = ["sh", "-c", "while [ ! -e flood ]; do sleep 0.05; done; seq 1 400000"]
task = "always"

[tools.long]
description = "Writes one line without end"
command = ["sh", "-c", 'while [ ! -e flood ]; do sleep 0.05; done; head -c 10000000 /dev/zero | tr "\\0" x; echo; echo behind it']
task = "always"

[tools.fail]
description = "Fails"
command = ["sh", "-c", "echo it did not work >&2; exit 3"]
task = "always"

[tools.secret]
description = "Takes what nobody is to read over a shoulder"
command = ["sh", "-c", 'printf %s "$1 and \${#TOKEN} letters"', "secret", "{name}"]
env.TOKEN = "{token}"
input.name = { description = "Whose it is" }
input.token = { secret = true, description = "It is shown nowhere" }
task = "always"

[tools.wait]
description = "Waits until it is cancelled"
command = ["sleep", "600"]
task = "always"

[servers.asking]
command = [${JSON.stringify(process.execPath)}, ${JSON.stringify(fileURLToPath(new URL("asking.mjs", import.meta.url)))}, "build"]
task = "always"
tools.build.rerun = "restart"
`;
