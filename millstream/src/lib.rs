//! millstream
