//! Kernels that depend on each other run in order, however closely a device lets one follow the other.
//!
//! Fusion is switched off, so that a program is a long list of small and large launches that share one arena; whole numbers
//! make every deviation visible. Alone in its process, because the switch is for all of it.

use millstream::{Device, Devices, Idea, Keep, Tensor, default_runtime};

/// Numbers that look random and are the same on every call with the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|s| s.parse().ok());
    given.unwrap_or_else(|| std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |d| d.as_nanos() as u64))
}

/// A program of many steps, each of which reads what earlier ones wrote, most of them elsewhere than they write.
fn program(numbers: &mut Numbers, n: usize, x: &Tensor, steps: usize) -> Tensor {
    let mut live = vec![x.clone(), x.flip(0) + 1];
    for _ in 0..steps {
        let a = live[live.len() - 1 - numbers.below(live.len().min(3))].clone();
        let b = live[numbers.below(live.len())].clone();
        let next = match numbers.below(7) {
            0 => a.transpose() + &b,
            1 => &a - b.flip(1),
            2 => a.flip(0) * &b,
            3 => &a + b.sum(&[0], Keep::Yes),
            4 => b.sum(&[1], Keep::Yes) - &a,
            5 => a.sum(&[], Keep::No) + b.transpose(),
            _ => a.slice(0, 0, n as isize / 2, 1).sum(&[0], Keep::Yes) * &b,
        };
        live.push(next);
    }
    live.pop().unwrap_or_else(|| x.clone())
}

#[test]
fn dependent_kernels_run_in_order() {
    let runtime = default_runtime().unwrap();
    runtime.set_idea(Idea::Fuse, false);
    let seed = seed();
    let host = runtime.device("cpu").unwrap();
    for (name, there) in runtime.list() {
        let device: Device = match there.and_then(|()| runtime.device(&name)) {
            Ok(device) if !device.is_host() => device,
            Ok(_) => continue,
            Err(error) => {
                println!("{name} is left out: {error}");
                continue;
            }
        };
        let in_software = device.profile().features.iter().any(|f| f == "software");
        let (programs, rounds) = if in_software { (2, 5) } else { (24, 60) };
        for p in 0..programs {
            let mut numbers = Numbers(seed ^ (p << 8));
            // From one group of threads to many waves of them.
            let n = [3, 33, 64, 130, 515, 1200][numbers.below(if in_software { 3 } else { 6 })];
            let values: Vec<i32> = (0..n * n).map(|_| numbers.below(1 << 20) as i32 - (1 << 19)).collect();
            let (steps, at) = (10 + numbers.below(60), numbers.0);
            let on = |device: &Device| {
                let x = Tensor::from_shape(&[n, n], &values).to(device);
                program(&mut Numbers(at), n, &x, steps)
            };
            let expected = on(&host).to_vec::<i32>().unwrap();
            let mut kept = Vec::new();
            for round in 0..rounds {
                let y = on(&device);
                assert!(y.to_vec::<i32>().unwrap() == expected, "{name}: seed {seed}, program {p}, round {round}");
                // Some results stay, so that later ones lie elsewhere.
                if round % 7 == 0 {
                    kept.push(y);
                }
            }
        }
        println!("{name}: {programs} programs, {rounds} times each, seed {seed}");
    }
}
