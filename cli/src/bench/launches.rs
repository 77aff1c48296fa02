//! The host's part of a launch: from a plan's step to the device's queue, for a step so small that nothing else counts.

use millstream::core::backend::Bindings;
use millstream::core::dispatcher::{Work, bind};
use millstream::core::{Access, ExprBuilder, Op};
use millstream::{Binary, Buffer, DType, Device, Idea, Mode, Runtime};

use super::timing::{self, Timing};
use crate::failure::{Failure, Outcome};

const ELEMENTS: usize = 64;

/// Times a launch of `x + x`, with the ring of prepared launches or without. In both the kernel is compiled beforehand.
pub fn time(runtime: &Runtime, device: &Device, prepared: bool) -> Outcome<Timing> {
    let mut builder = ExprBuilder::new();
    let x = builder.input(0, DType::F32);
    let sum = builder.binary(Binary::Add, x, x)?;
    let access = || Access::new(DType::F32, &[1]);
    let op = Op::map(&[ELEMENTS], vec![access()], vec![access()], builder.finish(&[sum]))?;
    let (variant, _) = device.choose(&op)?;
    let work = Work::new(op, variant, "launch");

    let (bytes, stream) = (ELEMENTS * DType::F32.size(), device.stream());
    let input = Buffer::from_bytes(&device.host(), &vec![0; bytes], Mode::Automatic)?.on(device, stream)?;
    input.wait()?;
    let output = Buffer::new(device, bytes, Mode::Automatic, stream)?.write(device, stream)?;
    let address = |r: &millstream::core::buffer::Resident| (r.storage.memory().clone(), r.storage.offset());
    let ((from, from_at), (to, to_at)) = (address(&input), address(&output));
    let (inputs, outputs) = ([bind(&from, from_at, bytes, 0)], [bind(&to, to_at, bytes, 0)]);
    let bindings = Bindings { inputs: &inputs, outputs: &outputs, params: &[], workspace: None, note: None };

    let before = device.has(Idea::Ring);
    if prepared && !before {
        return Err(Failure::usage("launch_prepared needs the ring, which --without ring switches off"));
    }
    runtime.set_idea(Idea::Ring, prepared);
    let timing = timing::call(
        || {
            let launch = device.prepare(&work)?;
            device.launch(&launch, &bindings, stream)?;
            Ok(())
        },
        || stream.synchronize().map_err(Into::into),
    );
    runtime.set_idea(Idea::Ring, before);
    timing
}
