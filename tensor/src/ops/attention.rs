//! Attention.

use millstream_core::what::{Dims, broadcast_shapes};
use millstream_core::{DType, Error, Result, Scalar};

use crate::Tensor;
use crate::graph::{Attention, Inputs};

/// Which keys a query sees, and how scores are scaled.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Whether a query sees no key after its own position. The last query has the position of the last key, so that queries that come
    /// one by one see all keys before them.
    pub causal: bool,
    /// True where a query (the last axis but one) sees a key (the last), or numbers that are added to the scores; broadcast to the
    /// scores.
    pub mask: Option<&'a Tensor>,
    /// What scores are multiplied with; one over the root of the length of a query if not given.
    pub scale: Option<f64>,
}

/// # Attention
impl Tensor {
    /// `softmax(scale * q k' + mask) v` for queries `[.., heads, n, d]`, keys `[.., kv_heads, m, d]` and values
    /// `[.., kv_heads, m, e]`, without the scores ever being in memory. There may be fewer heads of keys and values than of
    /// queries: then neighbouring heads of queries share one. A query that sees no key gives zeros, also where the mask adds
    /// minus infinity to all its scores. Half types are computed in f32.
    ///
    /// ```
    /// use millstream::{AttentionOptions, DType, Generator, Tensor};
    /// let mut g = Generator::new(1);
    /// let (q, k, v) = (g.normal(&[4, 5, 8], DType::F32), g.normal(&[2, 7, 8], DType::F32), g.normal(&[2, 7, 3], DType::F32));
    /// let y = q.attention(&k, &v, &AttentionOptions { causal: true, ..Default::default() });
    /// assert_eq!(y.shape(), [4, 5, 3]);
    /// ```
    #[track_caller]
    pub fn attention(&self, keys: &Tensor, values: &Tensor, options: &AttentionOptions<'_>) -> Tensor {
        Tensor::build("attention", || {
            for t in [self, keys, values].into_iter().chain(options.mask) {
                t.check()?;
            }
            let rank = self.rank();
            if rank < 2 || keys.rank() != rank || values.rank() != rank {
                return Err(Error::shape(format!(
                    "attention of queries {:?}, keys {:?} and values {:?}",
                    self.sizes(),
                    keys.sizes(),
                    values.sizes()
                ))
                .suggest("all have the same axes: batch, heads, positions, vectors"));
            }
            let dtype = self.dtype().promote(keys.dtype())?.promote(values.dtype())?;
            if !dtype.is_float() {
                return Err(Error::dtype(format!("attention is computed in floats, not {dtype}")));
            }
            let at = rank - 2;
            let (d, n) = (self.sizes()[at + 1], keys.sizes()[at]);
            if keys.sizes()[at + 1] != d || values.sizes()[at] != n {
                return Err(Error::shapes_differ(keys.sizes(), values.sizes())
                    .suggest("keys are as long as queries, and there is a value for each key"));
            }
            // Heads that share keys and values become an axis of their own, along which these do not move.
            let shared = match (at.checked_sub(1).map(|h| (self.sizes()[h], keys.sizes()[h])), rank) {
                (Some((heads, kv)), 3..) if heads != kv && kv != 1 && heads != 1 => {
                    if kv == 0 || !heads.is_multiple_of(kv) {
                        return Err(Error::shape(format!("{heads} heads of queries cannot share {kv} heads of keys")));
                    }
                    Some((heads, kv))
                }
                _ => None,
            };
            let split = |t: &Tensor, heads: usize| -> Result<Tensor> {
                let Some((_, kv)) = shared else { return Ok(t.clone()) };
                let h = t.rank() - 3;
                let mut shape: Dims = t.sizes().into();
                if shape[h] == 1 {
                    shape.insert(h, 1);
                } else {
                    shape[h] = kv;
                    shape.insert(h + 1, heads / kv);
                }
                let out = t.reshape(&shape);
                out.check()?;
                Ok(out)
            };
            let (heads, kv) = shared.unwrap_or((1, 1));
            let q = split(&self.cast(dtype), heads)?;
            let (k, v) = (split(&keys.cast(dtype), kv)?, split(&values.cast(dtype), kv)?);
            let at = q.rank() - 2;
            let mut batch = broadcast_shapes(&q.sizes()[..at], &k.sizes()[..at])?;
            batch = broadcast_shapes(&batch, &v.sizes()[..at])?;
            let with = |x: usize, y: usize| batch.iter().copied().chain([x, y]).collect::<Dims>();
            let (m, e) = (q.sizes()[at], v.sizes()[at + 1]);
            let mut inputs = Inputs::new();
            for (t, shape) in [(&q, with(m, d)), (&k, with(n, d)), (&v, with(n, e))] {
                inputs.push(Tensor { layout: t.layout.broadcast(&shape)?, node: t.node.clone() });
            }
            if let Some(mask) = options.mask {
                let mask = if mask.dtype() == DType::Bool { mask.clone() } else { mask.cast(dtype) };
                // The mask has the heads of the queries.
                let mask = if shared.is_some() && mask.rank() >= 3 { split(&mask, heads)? } else { mask };
                inputs.push(Tensor { layout: mask.layout.broadcast(&with(m, n))?, node: mask.node.clone() });
            }
            let scale = options.scale.unwrap_or_else(|| 1.0 / (d.max(1) as f64).sqrt());
            let scale = Scalar::from_f64(scale, dtype.compute());
            let operation = Attention { scale, causal: options.causal, mask: options.mask.is_some() };
            let out = Tensor::new_node(operation, inputs)?;
            if shared.is_none() {
                return Ok(out);
            }
            Ok(out.flatten(at as isize - 2, at as isize - 1))
        })
    }
}
