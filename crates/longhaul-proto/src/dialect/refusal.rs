//! Errors that not every revision has a code for.

use super::{Dialect, Era};
use crate::jsonrpc::{Code, ErrorObject, RequestId, write_error};

impl Dialect {
    /// The code that stands for `code` here.
    ///
    /// The legacy era has none for overload; the modern era took back the one for a resource that is not
    /// there (2026-07-28, Resources, Error Handling).
    pub fn code(&self, code: Code) -> Code {
        match (self.era, code) {
            (Era::Legacy, Code::OVERLOADED) => Code::INTERNAL,
            (Era::Modern, Code::RESOURCE_NOT_FOUND) => Code::INVALID_PARAMS,
            _ => code,
        }
    }

    /// The same error, with the code it has here.
    #[must_use]
    pub fn error(&self, error: ErrorObject) -> ErrorObject {
        ErrorObject { code: self.code(error.code), ..error }
    }

    /// Appends a whole answer that is an error; gives the code it has here.
    pub fn write_error(&self, out: &mut Vec<u8>, id: &RequestId, error: &ErrorObject) -> Code {
        let code = self.code(error.code);
        if code == error.code {
            write_error(out, Some(id), error);
        } else {
            write_error(out, Some(id), &self.error(error.clone()));
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_era_has_its_own_code_for_overload_and_absence() {
        let (legacy, modern) = (Dialect::newest_legacy(), Dialect::newest_modern());
        let busy = ErrorObject::overloaded("busy", Duration::from_millis(1500));
        let mut out = Vec::new();
        assert_eq!(legacy.write_error(&mut out, &1.into(), &busy), Code(-32603));
        let text = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"busy","data":{"reason":"overloaded","retryAfterMs":1500}}}"#;
        assert_eq!(String::from_utf8(out).unwrap(), text);
        assert_eq!(modern.error(busy).code, Code(-31001));
        assert_eq!(legacy.code(Code::RESOURCE_NOT_FOUND), Code(-32002));
        assert_eq!(modern.code(Code::RESOURCE_NOT_FOUND), Code(-32602));
    }

    #[test]
    fn r3_55_no_code_is_one_that_the_specification_keeps_for_itself() {
        let defined = [Code::HEADER_MISMATCH, Code::MISSING_CAPABILITY, Code::UNSUPPORTED_VERSION];
        let others = [
            Code::PARSE,
            Code::INVALID_REQUEST,
            Code::METHOD_NOT_FOUND,
            Code::INVALID_PARAMS,
            Code::INTERNAL,
            Code::RESOURCE_NOT_FOUND,
            Code::OVERLOADED,
            Code::FORBIDDEN,
        ];
        assert_eq!(defined, [Code(-32020), Code(-32021), Code(-32022)]);
        for code in others.map(|code| Dialect::newest_modern().code(code).0) {
            assert!(!(-32099..=-32000).contains(&code), "{code} is kept");
            let is_of_json_rpc = [-32700, -32600, -32601, -32602, -32603].contains(&code);
            assert!(
                is_of_json_rpc || !(-32768..=-32000).contains(&code),
                "{code} is no code of ours to give"
            );
        }
    }
}
