//! Formulas, cache entries and profiles of any bytes: what `fuzz/` feeds for hours, for some seconds. Files and expressions have
//! tests of their own.

#[path = "../../../fuzz/checks/cache_entry.rs"]
mod cache_entry;
#[path = "../../../fuzz/checks/einsum.rs"]
mod einsum;
#[path = "../../../fuzz/checks/profile.rs"]
mod profile;

use millstream::core::testing::Damage;

#[test]
fn damaged_formulas_are_planned_or_refused() {
    Damage::new("einsum").pieces(&["->", "...", ",", "a", "é", "ab"]).feed(5.0, einsum::check);
}

#[test]
fn damaged_cache_entries_count_as_absent() {
    Damage::new("cache_entry").feed(5.0, cache_entry::check);
    cache_entry::tidy();
}

#[test]
fn damaged_profiles_change_rates_only() {
    let pieces = &["1e308", "-1", "0", "1e999", "null", "[", "}", ":", "\"f64\""];
    Damage::new("profile").pieces(pieces).feed(5.0, profile::check);
}
