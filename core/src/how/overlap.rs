//! How many items of a stream are worth having in flight at once.

/// The number of items that keep the slowest step of a stream busy, by Little's law: the seconds that an item spends in all its
/// steps, over the seconds between two items, which are those of the slowest step. Steps of different items overlap; those of one
/// follow each other. Two at least, so that the next item is queued when one ends; one where nothing can overlap.
pub fn in_flight(steps: &[f64]) -> usize {
    let counted = || steps.iter().copied().filter(|s| s.is_finite() && *s > 0.0);
    let slowest = counted().fold(0.0, f64::max);
    if steps.len() < 2 || slowest == 0.0 {
        return steps.len().clamp(1, 2);
    }
    ((counted().sum::<f64>() / slowest).ceil() as usize).clamp(2, steps.len())
}

#[cfg(test)]
mod tests {
    use super::in_flight;

    #[test]
    fn as_many_items_are_in_flight_as_the_slowest_step_needs() {
        // Nothing overlaps with itself.
        assert_eq!(in_flight(&[]), 1);
        assert_eq!(in_flight(&[1.0]), 1);
        // Compute-bound: the next one waits on the device.
        assert_eq!(in_flight(&[0.1, 5.0, 0.01]), 2);
        // Transfer-bound: one travels up, one is computed, one travels down.
        assert_eq!(in_flight(&[1.2, 0.05, 1.2]), 3);
        assert_eq!(in_flight(&[1.0, 1.0, 1.0]), 3);
        // Never more than there are steps, and a step without a price says nothing.
        assert_eq!(in_flight(&[1.0; 5]), 5);
        assert_eq!(in_flight(&[0.0, 1.0, f64::NAN]), 2);
        assert_eq!(in_flight(&[0.0, 0.0]), 2);
    }
}
