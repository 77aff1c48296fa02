//! Several threads read one tensor that is still to be computed: each gets its value.

use std::sync::Barrier;

use millstream::Tensor;

#[test]
fn threads_that_read_one_pending_tensor_all_get_its_value() {
    const THREADS: usize = 8;
    let x = Tensor::from_shape(&[4, 8], &(0..32).map(|i| i as f32 / 8.0).collect::<Vec<_>>());
    for round in 0..3000 {
        // Softmax, in the middle of a graph and at its top: row programs, which need what they write.
        let shifted = &x - &x.max_keepdim(1);
        let e = (&shifted * (1.0 + round as f64)).exp();
        let y = &e / &e.sum_keepdim(1);
        let z = y.sum(..);
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (y, z, barrier) = (&y, &z, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if thread % 2 == 0 {
                        let sum: f32 = y.to_vec::<f32>().unwrap().iter().sum();
                        assert!((sum - 4.0).abs() < 1e-4, "{sum}");
                    } else {
                        let sum = z.item::<f32>().unwrap();
                        assert!((sum - 4.0).abs() < 1e-4, "{sum}");
                    }
                });
            }
        });
    }
}
