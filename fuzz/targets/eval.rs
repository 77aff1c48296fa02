//! Expressions of `millstream eval`, read and planned. The command's own modules, since it is no library.
#![no_main]
#![allow(dead_code, unused_imports)]

#[path = "../../cli/src/args.rs"]
mod args;
#[path = "../../cli/src/eval/mod.rs"]
mod eval;
#[path = "../../cli/src/failure.rs"]
mod failure;

/// Nothing is said.
mod output {
    pub fn say(_: impl AsRef<str>) -> crate::failure::Outcome {
        Ok(())
    }
}

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    static NAMES: OnceLock<eval::Names> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let value = |text: &str| eval::compute(text, &eval::Names::new()).expect("a value");
        [("x", "[[1.5, -2, 3], [0, 4, -0.5]]"), ("y", "[3, 1, 2]")]
            .map(|(name, text)| (name.to_string(), eval::Value::Tensor(value(text))))
            .into()
    });
    let text = String::from_utf8_lossy(data);
    if let Ok(tensor) = eval::compute(&text, names) {
        // A plan may be refused, for a size that no memory has.
        let _ = tensor.explain();
    }
});
