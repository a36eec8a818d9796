//! What lists show: tools, resources, templates and prompts.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Dialect;
use crate::jsonrpc::ObjectWriter;
use crate::model::{
    Annotations, Icon, Implementation, Meta, Prompt, PromptArgument, Resource, ResourceTemplate, TaskSupport,
    Tool, object_schema, spelled_out,
};

impl Dialect {
    /// Appends one tool of a `tools/list` answer.
    pub fn write_tool(&self, tool: &Tool, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        self.named(&mut object, &tool.name, tool.title.as_ref(), tool.description.as_ref());
        object.raw("inputSchema", self.schema(&tool.input_schema).get());
        if let Some(schema) = tool.output_schema.as_ref().filter(|_| self.structures_results()) {
            let of_objects = if self.structures_objects_only() { object_schema(schema) } else { None };
            object.raw("outputSchema", self.schema(of_objects.as_ref().unwrap_or(schema)).get());
        }
        object.optional("annotations", tool.annotations.as_ref().filter(|_| self.annotates_tools()));
        if self.asks_for_tasks() && tool.task_support != TaskSupport::Forbidden {
            let mut execution = object.object("execution");
            execution.field("taskSupport", &tool.task_support);
            execution.end();
        }
        others(&mut object, &tool.others);
        self.adorned(&mut object, &tool.icons, None, &tool.meta);
        object.end();
    }

    /// A schema as the revision writes it.
    fn schema<'s>(&self, schema: &'s RawValue) -> Cow<'s, RawValue> {
        let spelled_out = if self.has_boolean_schemas() { None } else { spelled_out(schema) };
        spelled_out.map_or(Cow::Borrowed(schema), Cow::Owned)
    }

    /// Appends one resource of a `resources/list` answer.
    pub fn write_resource(&self, resource: &Resource, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.field("uri", &resource.uri);
        self.named(&mut object, &resource.name, resource.title.as_ref(), resource.description.as_ref());
        object.optional("mimeType", resource.mime_type.as_ref()).optional("size", resource.size.as_ref());
        others(&mut object, &resource.others);
        self.adorned(&mut object, &resource.icons, resource.annotations.as_ref(), &resource.meta);
        object.end();
    }

    /// Appends one template of a `resources/templates/list` answer.
    pub fn write_resource_template(&self, template: &ResourceTemplate, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.field("uriTemplate", &template.uri_template);
        self.named(&mut object, &template.name, template.title.as_ref(), template.description.as_ref());
        object.optional("mimeType", template.mime_type.as_ref());
        others(&mut object, &template.others);
        self.adorned(&mut object, &template.icons, template.annotations.as_ref(), &template.meta);
        object.end();
    }

    /// Appends one prompt of a `prompts/list` answer.
    pub fn write_prompt(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        self.named(&mut object, &prompt.name, prompt.title.as_ref(), prompt.description.as_ref());
        if !prompt.arguments.is_empty() {
            object.array("arguments", &prompt.arguments, |out, argument: &PromptArgument| {
                let mut object = ObjectWriter::new(out);
                self.named(
                    &mut object,
                    &argument.name,
                    argument.title.as_ref(),
                    argument.description.as_ref(),
                );
                if argument.required {
                    object.field("required", &true);
                }
                others(&mut object, &argument.others);
                object.end();
            });
        }
        others(&mut object, &prompt.others);
        self.adorned(&mut object, &prompt.icons, None, &prompt.meta);
        object.end();
    }

    /// Appends who a peer is.
    pub(super) fn write_implementation(&self, info: &Implementation, out: &mut Vec<u8>) {
        let mut object = ObjectWriter::new(out);
        object.field("name", &info.name).field("version", &info.version);
        object.optional("title", info.title.as_ref().filter(|_| self.titles()));
        if self.shows_icons() {
            object.optional("description", info.description.as_ref());
            object.optional("websiteUrl", info.website_url.as_ref());
        }
        self.adorned(&mut object, &info.icons, None, &Meta::new());
        object.end();
    }

    fn named(
        &self,
        object: &mut ObjectWriter<'_>,
        name: &str,
        title: Option<&String>,
        description: Option<&String>,
    ) {
        object.field("name", name);
        object.optional("title", title.filter(|_| self.titles())).optional("description", description);
    }

    fn adorned(
        &self,
        object: &mut ObjectWriter<'_>,
        icons: &[Icon],
        annotations: Option<&Annotations>,
        meta: &Meta,
    ) {
        if self.shows_icons() && !icons.is_empty() {
            object.field("icons", icons);
        }
        object.optional("annotations", annotations);
        if !meta.is_empty() {
            object.field("_meta", meta);
        }
    }
}

/// Writes members of which no revision known here says anything.
pub(super) fn others(object: &mut ObjectWriter<'_>, others: &Meta) {
    for (name, value) in others.iter() {
        object.raw(name, value.get());
    }
}
