//! A stored profile of any bytes changes rates only, and only to numbers that a measurement can give.

use std::sync::OnceLock;

use millstream::DeviceProfile;

/// Whether its rates were taken.
pub fn check(data: &[u8]) -> bool {
    static OWN: OnceLock<DeviceProfile> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let runtime = millstream::runtime().build();
        let profile = runtime.device("cpu").expect("the CPU").profile();
        DeviceProfile { measured: false, ..(*profile).clone() }
    });
    let taken = own.clone().with_stored_rates(data);
    let sound = |x: f64| x.is_finite() && x > 0.0;
    let time = |x: f64| x.is_finite() && x >= 0.0;
    assert!(taken.rates.iter().chain(&taken.matrix_rates).all(|(_, rate)| sound(*rate)));
    assert!(taken.levels.iter().all(|l| sound(l.bandwidth)) && sound(taken.transfer.bandwidth));
    assert!(time(taken.launch) && time(taken.transfer.latency));
    let mut facts = DeviceProfile {
        rates: own.rates.clone(),
        matrix_rates: own.matrix_rates.clone(),
        launch: own.launch,
        transfer: own.transfer,
        measured: own.measured,
        ..taken.clone()
    };
    for (level, honest) in facts.levels.iter_mut().zip(&own.levels) {
        level.bandwidth = honest.bandwidth;
    }
    assert_eq!(facts, *own);
    taken != *own
}
