//! How many kernels a device compiles: a kernel serves every size, so that new shapes need hardly any.

use std::collections::BTreeMap;

use millstream::core::cache::KernelStatistics;
use millstream::{Conv, Device, Tensor};

/// Random numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % n.max(1)
    }

    /// A size whose logarithm is uniform, from 2 to `2^bits`. A dimension of one element is left out of an operation, which is then another
    /// one for a kernel.
    fn size(&mut self, bits: usize) -> usize {
        let most = 1 << (1 + self.below(bits));
        2 + self.below(most - 1)
    }
}

/// Plans matmuls and convolutions of random shapes, which compiles their kernels without running any.
fn plan(device: &Device, random: &mut Random, count: usize) {
    let tensor = |shape: &[usize]| Tensor::from_shape(shape, &vec![0f32; shape.iter().product()]).to(device);
    for i in 0..count {
        let result = if i % 2 == 0 {
            let (m, n, k) = (random.size(9), random.size(9), random.size(9));
            tensor(&[m, k]).matmul(&tensor(&[k, n]))
        } else {
            let (window, stride) = ([3, 5][random.below(2)], 1 + random.below(2));
            let (channels, filters, size) = (random.size(6), random.size(6), window + random.size(5));
            let options = Conv::new().stride(stride).padding(random.below(window));
            let image = tensor(&[2 + random.below(3), channels, size, size + random.below(5)]);
            image.conv2d(&tensor(&[filters, channels, window, window]), None, &options)
        };
        result.explain().unwrap();
    }
}

fn contractions(s: &KernelStatistics) -> BTreeMap<String, u64> {
    s.compiled.iter().map(|((family, dtype), n)| (format!("{family} {dtype}"), *n)).collect()
}

#[test]
fn new_shapes_hardly_ever_compile() {
    const SHAPES: usize = 200;
    let seed = 0x9e37_79b9_7f4a_7c15;
    let runtime = millstream::runtime()
        .cache(std::env::temp_dir().join(format!("millstream-kernels-{}", std::process::id())))
        .build();
    let device = match runtime.device("vulkan:0") {
        Ok(device) => device,
        Err(error) => return millstream::core::testing::missing("vulkan", &error),
    };
    let mut random = Random(seed);
    plan(&device, &mut random, SHAPES);
    let before = device.statistics().kernels;
    plan(&device, &mut random, SHAPES);
    let after = device.statistics().kernels;
    println!("{:?}\n{:?}", contractions(&before), contractions(&after));
    let new = after.compiles - before.compiles;
    assert!(new as usize * 20 <= SHAPES, "{new} new kernels");
    for ((family, dtype), n) in &after.compiled {
        assert!(*n <= 48, "{n} kernels of the family {family} for {dtype}");
    }
}
