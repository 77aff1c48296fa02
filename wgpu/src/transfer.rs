//! Copies: through staging buffers from and to the host, directly within the device.
//!
//! `wgpu` copies whole words between different buffers. What is ragged, or lies in one buffer, goes through small kernels that
//! leave the bytes beside it alone.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::memory::HostPtr;
use millstream_core::{Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::gpu::{Gpu, Submission, What};
use crate::kernel::GROUP;
use crate::memory::Block;
use crate::staging::{LARGE, SMALL, Shelf};
use crate::stream::{Batch, Call};

/// The mapped staging buffer that a batch writes uploads into.
pub(crate) struct Upload {
    buffer: wgpu::Buffer,
    used: u64,
}

/// A copy to the host, of one or several pieces.
pub(crate) struct Download {
    state: Mutex<(usize, Option<Error>)>,
    changed: Condvar,
}

impl Download {
    /// What came of it; `None` while pieces are under way.
    pub(crate) fn result(&self) -> Option<Result<()>> {
        let state = self.state.lock();
        match &*state {
            (_, Some(error)) => Some(Err(error.clone())),
            (0, None) => Some(Ok(())),
            _ => None,
        }
    }

    /// Waits for a change, but not longer than this.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut state = self.state.lock();
        if state.0 > 0 && state.1.is_none() {
            self.changed.wait_for(&mut state, timeout);
        }
    }

    fn piece_is(&self, result: Result<()>) {
        let mut state = self.state.lock();
        state.0 = state.0.saturating_sub(1);
        if let Err(error) = result {
            state.1.get_or_insert(error);
        }
        self.changed.notify_all();
    }
}

/// What one staging buffer brings to the host.
pub(crate) struct Piece {
    buffer: wgpu::Buffer,
    /// Bytes of the buffer that are written by the device.
    bytes: u64,
    /// The first of them that is wanted, and how many.
    skip: usize,
    len: usize,
    to: HostPtr,
    download: Arc<Download>,
}

impl Piece {
    /// Says that it will never come.
    pub(crate) fn fail(self, shelf: &Shelf, error: &Error) {
        shelf.forget(self.buffer.size());
        self.download.piece_is(Err(error.clone()));
    }

    /// Has the bytes copied to the host's memory when the submission is finished.
    fn send(self, shelf: &Arc<Shelf>, device: &str) {
        let (shelf, device, buffer, bytes) =
            (Arc::downgrade(shelf), device.to_string(), self.buffer.clone(), self.bytes);
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |mapped| {
            let result = mapped.map_err(|e| e.to_string()).and_then(|()| self.read());
            let result = result.map_err(|e| Error::launch(format!("{device}: a copy to the host failed: {e}")));
            if let Some(shelf) = shelf.upgrade() {
                match &result {
                    Ok(()) => shelf.put(self.buffer),
                    Err(_) => shelf.forget(self.buffer.size()),
                }
            }
            self.download.piece_is(result);
        });
    }

    fn read(&self) -> std::result::Result<(), String> {
        let view = self.buffer.get_mapped_range(0..self.bytes).map_err(|e| e.to_string())?;
        let wanted = view.get(self.skip..self.skip + self.len).ok_or("the staging buffer is too short")?;
        // SAFETY: the caller of `copy` keeps `len` bytes there writable until the stream has passed the copy.
        unsafe { std::ptr::copy_nonoverlapping(wanted.as_ptr(), self.to.as_ptr(), self.len) };
        drop(view);
        self.buffer.unmap();
        Ok(())
    }
}

/// Which bytes of a word are meant: from `start` up to `end`, of 0 to 4.
fn mask(start: u64, end: u64) -> u32 {
    (start..end).fold(0, |mask, byte| mask | 0xff << (8 * byte))
}

impl Batch {
    /// Copies host bytes into a buffer. They are read before the call returns.
    pub(crate) fn upload(&mut self, gpu: &Gpu, from: &[u8], to: &Block, offset: usize) -> Result<()> {
        let head = from.len().min(offset.next_multiple_of(4) - offset);
        let (head, rest) = from.split_at(head);
        let (body, tail) = rest.split_at(rest.len() / 4 * 4);
        let body_at = (offset + head.len()) as u64;
        let mut edges = [0u32; 8];
        let mut count = 0;
        for (bytes, at) in [(head, offset as u64), (tail, body_at + body.len() as u64)] {
            if !bytes.is_empty() {
                let start = at % 4;
                let value = bytes.iter().zip(start..).fold(0, |word, (b, i)| word | u32::from(*b) << (8 * i));
                edges[4 * count..4 * count + 3].copy_from_slice(&[
                    (at / 4) as u32,
                    mask(start, start + bytes.len() as u64),
                    value,
                ]);
                count += 1;
            }
        }
        if count > 0 {
            edges[3] = count as u32;
            let kernel = gpu.builtins.patch(gpu)?;
            self.launch(gpu, &Call { kernel, entry: 0, grid: [1, 1, 1], words: &edges }, &[to])?;
        }
        let mut done = 0;
        while done < body.len() {
            let left = (body.len() - done) as u64;
            let (buffer, at, room) = self.staging(gpu, left)?;
            let n = left.min(room);
            let part = &body[done..done + n as usize];
            let written = gpu.call(What::Launch, || {
                let mut view = buffer.get_mapped_range_mut(at..at + n)?;
                view.copy_from_slice(part);
                Ok::<_, wgpu::MapRangeError>(())
            })?;
            written.map_err(|e| Error::launch(format!("{}: {e}", gpu.name)))?;
            let target = body_at + done as u64;
            self.encoder(gpu)?.copy_buffer_to_buffer(&buffer, at, &to.buffer, target, n);
            done += n as usize;
            if done < body.len() {
                // The device copies this part while the host writes the next.
                self.submit(gpu)?;
            }
        }
        Ok(())
    }

    /// Room in a mapped staging buffer: the buffer, where the room begins, and how much there is.
    fn staging(&mut self, gpu: &Gpu, wanted: u64) -> Result<(wgpu::Buffer, u64, u64)> {
        if let Some(upload) = &mut self.upload {
            let room = upload.buffer.size() - upload.used;
            if room >= wanted {
                let at = upload.used;
                upload.used = (at + wanted).next_multiple_of(16).min(upload.buffer.size());
                return Ok((upload.buffer.clone(), at, room));
            }
        }
        self.close_upload(gpu)?;
        let buffer = gpu.staging.uploads.take(gpu, wanted)?;
        let used = wanted.next_multiple_of(16).min(buffer.size());
        let room = buffer.size();
        self.upload = Some(Upload { buffer: buffer.clone(), used });
        Ok((buffer, 0, room))
    }

    /// Ends writing to the open staging buffer.
    pub(crate) fn close_upload(&mut self, gpu: &Gpu) -> Result<()> {
        if let Some(upload) = self.upload.take() {
            let unmapped = gpu.call(What::Launch, || upload.buffer.unmap());
            self.uploads.push(upload.buffer);
            unmapped?;
        }
        Ok(())
    }

    /// Copies bytes of a buffer to the host, where they are when the stream has passed this.
    pub(crate) fn download(&mut self, gpu: &Gpu, from: &Block, offset: usize, to: HostPtr, bytes: usize) -> Result<()> {
        let first = offset as u64 / 4 * 4;
        let last = ((offset + bytes) as u64).next_multiple_of(4);
        let pieces = (last - first).div_ceil(LARGE) as usize;
        let download = Arc::new(Download { state: Mutex::new((pieces, None)), changed: Condvar::new() });
        self.downloads.push(download.clone());
        let mut at = first;
        while at < last {
            let n = (last - at).min(if last - at <= SMALL { SMALL } else { LARGE });
            let buffer = gpu.staging.downloads.take(gpu, n).inspect_err(|e| download.piece_is(Err(e.clone())))?;
            let encoder = self.encoder(gpu).inspect_err(|e| download.piece_is(Err(e.clone())))?;
            encoder.copy_buffer_to_buffer(&from.buffer, at, &buffer, 0, n);
            let start = at.max(offset as u64);
            let end = (at + n).min((offset + bytes) as u64);
            // SAFETY: the range lies inside the caller's memory, which is at least `bytes` long.
            let target = unsafe { to.as_ptr().add(start as usize - offset) };
            let to = HostPtr::new(target).ok_or_else(|| Error::internal("a copy to the null pointer"))?;
            let (skip, len) = ((start - at) as usize, (end - start) as usize);
            self.pieces.push(Piece { buffer, bytes: n, skip, len, to, download: download.clone() });
            at += n;
            if at < last {
                self.submit(gpu)?;
            }
        }
        Ok(())
    }

    /// Copies within the device.
    pub(crate) fn copy(&mut self, gpu: &Gpu, from: (&Block, usize), to: (&Block, usize), bytes: usize) -> Result<()> {
        let ((source, from), (target, to)) = (from, to);
        let (from, to, bytes) = (from as u64, to as u64, bytes as u64);
        if source.id != target.id && from % 4 == 0 && to % 4 == 0 && bytes % 4 == 0 {
            self.encoder(gpu)?.copy_buffer_to_buffer(&source.buffer, from, &target.buffer, to, bytes);
            return Ok(());
        }
        let first = to / 4;
        let count = (to + bytes).div_ceil(4) - first;
        // Where the source of the first word's first byte would be; that byte may be one that stays.
        let origin = from as i64 - (to % 4) as i64;
        let words = [
            origin.div_euclid(4) as u32,
            8 * origin.rem_euclid(4) as u32,
            first as u32,
            count as u32,
            mask(to % 4, 4),
            mask(0, (to + bytes - 1) % 4 + 1),
            0,
            0,
        ];
        let most = u64::from(gpu.limits.max_compute_workgroups_per_dimension).min(1 << 14);
        let groups = count.div_ceil(u64::from(GROUP)).min(most) as u32;
        let kernel = gpu.builtins.copy(gpu)?;
        self.launch(gpu, &Call { kernel, entry: 0, grid: [groups, 1, 1], words: &words }, &[source, target])
    }

    /// Sends staging buffers on their way back, and what was downloaded to the host.
    pub(crate) fn send_staging(&mut self, gpu: &Gpu, submission: &Submission) -> Result<()> {
        let (uploads, pieces) = (std::mem::take(&mut self.uploads), std::mem::take(&mut self.pieces));
        if uploads.is_empty() && pieces.is_empty() {
            return Ok(());
        }
        if !uploads.is_empty() {
            gpu.staging.uploads.used_by(gpu, submission);
        }
        if !pieces.is_empty() {
            gpu.staging.downloads.used_by(gpu, submission);
        }
        gpu.call(What::Launch, || {
            for buffer in uploads {
                gpu.staging.uploads.recycle(buffer);
            }
            for piece in pieces {
                piece.send(&gpu.staging.downloads, &gpu.name);
            }
        })
    }

    /// Drops what a batch that is not submitted holds of the shelves.
    pub(crate) fn drop_staging(&mut self, gpu: &Gpu, error: &Error) {
        for piece in self.pieces.drain(..) {
            piece.fail(&gpu.staging.downloads, error);
        }
        let open = self.upload.take().map(|upload| upload.buffer);
        for buffer in self.uploads.drain(..).chain(open) {
            gpu.staging.uploads.forget(buffer.size());
        }
    }
}
