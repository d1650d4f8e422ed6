//! One plain function per parser: it takes any bytes, and panics where an invariant is broken. The
//! tests here feed each with a bounded number of seeded inputs; a coverage-guided fuzzer can call
//! the same functions.

mod http;
#[cfg(test)]
mod inputs;

pub use http::{chunked_body, head, path, query};

#[cfg(test)]
mod tests {
    use super::inputs;

    #[test]
    fn head() {
        inputs::run("head", super::head, inputs::HEADS);
    }

    #[test]
    fn chunked_body() {
        inputs::run("chunked_body", super::chunked_body, inputs::CHUNKED_BODIES);
    }

    #[test]
    fn query() {
        inputs::run("query", super::query, inputs::QUERIES);
    }

    #[test]
    fn path() {
        inputs::run("path", super::path, inputs::PATHS);
    }
}
