//! Mistakes give typed errors that say what, where and what to do; nothing panics.

use millstream::{DType, ErrorKind, Tensor, step};

#[test]
fn an_error_travels_to_the_read_and_names_the_line_of_the_mistake() {
    let a = Tensor::from_slice(&[1.0f32, 2.0]);
    let b = Tensor::from_slice(&[1.0f32, 2.0, 3.0]);
    let line = line!() + 1;
    let wrong = &a + &b;
    assert!(wrong.shape().is_empty());
    let late = (wrong.exp() * 2.0).sum(..);
    for error in [wrong.check().unwrap_err(), late.to_vec::<f32>().unwrap_err(), late.eval().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Shape);
        assert_eq!(error.op(), Some("add"));
        let location = error.location().expect("a location");
        assert!(location.file().ends_with("errors.rs"), "{location}");
        assert_eq!(location.line(), line);
    }
    let chain = late.check().unwrap_err();
    assert_eq!(chain.chain(), ["exp", "mul", "sum"]);
}

#[test]
fn wrong_arguments_have_their_kind() {
    let x = Tensor::from_shape(&[2, 3], &[0.0f32; 6]);
    let huge = Tensor::full([1usize << 40], 1.0f32);
    let cases: Vec<(Tensor, ErrorKind)> = vec![
        (x.reshape(&[4]), ErrorKind::Shape),
        (x.reshape(&[usize::MAX, 2]), ErrorKind::Shape),
        (x.permute(&[0, 0]), ErrorKind::Argument),
        (x.permute(&[0]), ErrorKind::Argument),
        (x.sum(2), ErrorKind::Argument),
        (x.sum(-3), ErrorKind::Argument),
        (x.sum([0, -2]), ErrorKind::Argument),
        (x.softmax(5), ErrorKind::Argument),
        (x.layernorm(-3.., 1e-5), ErrorKind::Argument),
        (x.select(0, 2), ErrorKind::Index),
        (x.select(0, -3), ErrorKind::Index),
        (x.slice(0, step(..1, 0)), ErrorKind::Argument),
        (x.slice(7, ..1), ErrorKind::Argument),
        (x.broadcast(&[3, 3]), ErrorKind::Shape),
        (x.broadcast(&[2]), ErrorKind::Shape),
        (x.broadcast(&[usize::MAX, 2, 3]), ErrorKind::Shape),
        (x.squeeze(0), ErrorKind::Shape),
        (x.unsqueeze(4), ErrorKind::Argument),
        (x.matmul(&x), ErrorKind::Shape),
        (x.matmul(&Tensor::scalar(1.0f32)), ErrorKind::Shape),
        (x.and(&x), ErrorKind::DType),
        (x.not(), ErrorKind::DType),
        (Tensor::from_slice(&[true]).matmul(&Tensor::from_slice(&[true])), ErrorKind::DType),
        (Tensor::from_slice(&[1u64]) + &Tensor::from_slice(&[1i64]), ErrorKind::DType),
        (Tensor::from_shape(&[3], &[1.0f32]), ErrorKind::Shape),
        (Tensor::from_shape(&[usize::MAX, usize::MAX], &[1.0f32]), ErrorKind::Shape),
        (Tensor::from_bytes(&[2], DType::Bool, &[0, 7]), ErrorKind::DType),
        (Tensor::scalar(1.0f32).transpose(), ErrorKind::Shape),
        (Tensor::zeros(&[1; 100], DType::F32), ErrorKind::Shape),
        (huge.unsqueeze(0) + &huge.unsqueeze(1), ErrorKind::Shape),
    ];
    for (i, (tensor, kind)) in cases.into_iter().enumerate() {
        let error = tensor.check().expect_err(&format!("case {i} must fail"));
        assert_eq!(error.kind(), kind, "case {i}: {error}");
        assert!(error.location().is_some_and(|l| l.file().ends_with("errors.rs")), "case {i}: {error}");
    }
}

#[test]
fn reading_as_another_type_is_refused_with_a_suggestion() {
    let x = Tensor::from_slice(&[1.0f32]);
    let error = x.to_vec::<f64>().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DType);
    assert!(error.suggestion().is_some_and(|s| s.contains("cast")));
    assert_eq!(Tensor::from_slice(&[1.0f32, 2.0]).item::<f32>().unwrap_err().kind(), ErrorKind::Shape);
}

#[test]
fn more_memory_than_the_machine_has_is_an_error_and_the_program_goes_on() {
    let huge = Tensor::zeros([1usize << 50], DType::U8) + 1;
    let error = huge.eval().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
    assert!(error.suggestion().is_some());
    assert_eq!((Tensor::scalar(1.0f32) + 1.0).item::<f32>().ok(), Some(2.0));
}

#[test]
fn a_device_that_is_not_there_is_a_typed_error() {
    let runtime = Tensor::runtime().unwrap();
    for name in ["warp:0", "", "cpu:7", "CPU"] {
        let error = runtime.device(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoDevice, "{name}: {error}");
        assert!(error.suggestion().is_some());
    }
    assert!(runtime.errors().count(ErrorKind::NoDevice) >= 4);
}

#[test]
fn very_deep_graphs_are_computed_and_dropped_without_recursion() {
    let mut x = Tensor::from_slice(&[0.0f64]);
    for _ in 0..100_000 {
        x = x + 1.0;
    }
    assert_eq!(x.item::<f64>().ok(), Some(100_000.0));
    let mut y = Tensor::from_slice(&[0.0f64]);
    for _ in 0..400 {
        y = &y + &y;
    }
    drop(y);
}
