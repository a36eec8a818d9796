//! A store whose tasks are to outlive their process, without a disk.

use longhaul_store::{Durability, Memory, Overlay};

/// Memory that says it outlives the process.
#[derive(Debug, Default)]
pub struct Lasting(Memory);

impl Overlay for Lasting {
    type Below = Memory;

    fn below(&self) -> &Memory {
        &self.0
    }

    fn durability(&self) -> Durability {
        Durability::Disk
    }
}
