//! Numbers at the edges of their types: what a type does not hold is answered rightly or refused, never wrapped in silence.

use millstream::{ErrorKind, Reduction, Tensor};

#[test]
fn comparisons_with_numbers_out_of_range_are_right() {
    let x = Tensor::from_slice(&[0u8, 5, 255]);
    let all = |t: Tensor| t.to_vec::<bool>().unwrap();
    for (number, above) in [(256, true), (-1, false), (i64::MAX, true), (i64::MIN, false)] {
        assert_eq!(all(x.eq(number)), [false; 3], "{number}");
        assert_eq!(all(x.ne(number)), [true; 3], "{number}");
        assert_eq!((all(x.lt(number)), all(x.le(number))), (vec![above; 3], vec![above; 3]), "{number}");
        assert_eq!((all(x.gt(number)), all(x.ge(number))), (vec![!above; 3], vec![!above; 3]), "{number}");
    }
    let wide = Tensor::from_slice(&[0u64, u64::MAX]);
    assert_eq!(all(wide.gt(-1)), [true; 2]);
    let narrow = Tensor::from_slice(&[i32::MIN, i32::MAX]);
    assert_eq!(all(narrow.lt(i64::from(i32::MAX) + 1)), [true; 2]);
    assert_eq!(all(narrow.le(i64::from(i32::MAX))), [true; 2]);
}

#[test]
fn numbers_out_of_range_bound_nothing_or_are_refused() {
    let x = Tensor::from_slice(&[5u8, 200]);
    assert_eq!(x.clamp(-1, 300).to_vec::<u8>().unwrap(), [5, 200]);
    assert_eq!(x.clip(Some((-1).into()), None).to_vec::<u8>().unwrap(), [5, 200]);
    let truth = Tensor::from_slice(&[true, false]);
    let refused = [
        x.maximum(300),
        x.minimum(-1),
        x.rem(300),
        300i64 % &x,
        x.floor_div(-1),
        x.pow(256),
        x.shl(-1),
        x.fmod(300),
        x.pad(&[(1, 1)], 300),
        truth.choose(&x, 300),
    ];
    for (i, t) in refused.iter().enumerate() {
        let error = t.eval().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{i}");
        assert!(error.to_string().contains("does not fit in u8"), "{i}: {error}");
    }
    // What wraps by its nature wraps on; fractions have room.
    assert_eq!((&x + 300).to_vec::<u8>().unwrap(), [49, 244]);
    assert_eq!(x.and(-1).to_vec::<u8>().unwrap(), [5, 200]);
    assert_eq!((&x / 400).to_vec::<f32>().unwrap(), [0.0125, 0.5]);
    assert_eq!((300i64 / &x).to_vec::<f32>().unwrap(), [60.0, 1.5]);
    assert_eq!(x.shl(256).to_vec::<u8>().unwrap(), [0, 0]);
    let low = Tensor::from_slice(&[-5i8, 5]);
    assert_eq!(low.shr(1000).to_vec::<i8>().unwrap(), [-1, 0]);
    assert_eq!(x.logical_and(256).to_vec::<bool>().unwrap(), [true; 2]);
}

#[test]
fn distances_of_integers_do_not_overflow() {
    let item = |t: Tensor| t.item::<bool>().unwrap();
    let one = |v: i32| Tensor::from_slice(&[v]);
    assert!(!item(one(i32::MIN).allclose(&one(0), 1e-5, 1e-8, false)));
    assert!(!item(one(i32::MIN).allclose(&one(i32::MAX), 1e-5, 1e-8, false)));
    assert!(item(one(i32::MIN).allclose(&one(i32::MIN), 1e-5, 1e-8, false)));
    let (a, b) = (Tensor::from_slice(&[1u8]), Tensor::from_slice(&[2u8]));
    assert!(item(a.isclose(&b, 0.0, 1.0, false)) && !item(a.isclose(&b, 0.0, 0.5, false)));
    assert!(!item(Tensor::from_slice(&[true]).isclose(&Tensor::from_slice(&[false]), 0.0, 0.5, false)));
    let loss = |t: Tensor| t.item::<f32>().unwrap();
    assert_eq!(loss(a.l1_loss(&b, Reduction::Mean)), 1.0);
    let (low, high) = (Tensor::from_slice(&[-100i8]), Tensor::from_slice(&[100i8]));
    assert_eq!(loss(low.l1_loss(&high, Reduction::Sum)), 200.0);
    assert_eq!(loss(low.mse_loss(&high, Reduction::Mean)), 40_000.0);
    assert_eq!(loss(low.huber_loss(&high, 1.0, Reduction::Mean)), 199.5);
    let ones = Tensor::from_slice(&[100i8, 100]);
    assert!((loss(ones.cosine_similarity(&ones, 0, 1e-8)) - 1.0).abs() < 1e-6);
}
