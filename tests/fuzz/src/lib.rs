//! One plain function per parser.
