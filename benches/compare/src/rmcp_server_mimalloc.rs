//! rmcp with the allocator that ours has.

#[path = "rmcp_server.rs"]
mod server;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    server::main()
}
