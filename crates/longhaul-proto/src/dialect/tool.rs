//! A tool as a list shows it.

use super::Dialect;
use crate::jsonrpc::ObjectWriter;
use crate::model::{TaskSupport, Tool};

impl Dialect {
    /// Appends one tool of a `tools/list` answer.
    pub fn write_tool(&self, tool: &Tool, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.field("name", &tool.name);
        object.optional("title", tool.title.as_ref()).optional("description", tool.description.as_ref());
        object.raw("inputSchema", tool.input_schema.get());
        if let Some(schema) = &tool.output_schema {
            object.raw("outputSchema", schema.get());
        }
        object.optional("annotations", tool.annotations.as_ref());
        if self.asks_for_tasks() && tool.task_support != TaskSupport::Forbidden {
            let mut execution = object.object("execution");
            execution.field("taskSupport", &tool.task_support);
            execution.end();
        }
        object.end();
    }
}
