// Integers of 64 bits.

// The quotient rounded down; 0 for a zero divisor, MIN for MIN / -1.
fn floor_div_i64(a: i64, b: i64) -> i64 {
    if (b == 0li) {
        return 0li;
    }
    if (b == -1li) {
        return i64(0lu - u64(a));
    }
    let q = a / b;
    let r = a - (q * b);
    return select(q, q - 1li, (r != 0li) && ((r ^ b) < 0li));
}

// The remainder with the divisor's sign; 0 for a zero divisor.
fn rem_i64(a: i64, b: i64) -> i64 {
    if ((b == 0li) || (b == -1li)) {
        return 0li;
    }
    let r = a - ((a / b) * b);
    return select(r, r + b, (r != 0li) && ((r ^ b) < 0li));
}

// The quotient; 0 for a zero divisor.
fn floor_div_u64(a: u64, b: u64) -> u64 {
    if (b == 0lu) {
        return 0lu;
    }
    return a / b;
}

// The remainder; 0 for a zero divisor.
fn rem_u64(a: u64, b: u64) -> u64 {
    if (b == 0lu) {
        return 0lu;
    }
    return a % b;
}

// a^b, wrapped.
fn pow_u64(a: u64, b: u64) -> u64 {
    var result = 1lu;
    var square = a;
    var rest = b;
    while (rest != 0lu) {
        if ((rest & 1lu) != 0lu) {
            result = result * square;
        }
        square = square * square;
        rest = rest >> 1u;
    }
    return result;
}

// a^b, wrapped; for a negative b 0, except for the bases 1 and -1.
fn pow_i64(a: i64, b: i64) -> i64 {
    if (b < 0li) {
        if (a == 1li) {
            return 1li;
        }
        if (a == -1li) {
            return select(1li, -1li, (b & 1li) != 0li);
        }
        return 0li;
    }
    return i64(pow_u64(u64(a), u64(b)));
}

// x << amount; 0 for an amount of the width, 64, or more.
fn shl_u64(x: u64, amount: u64, width: u32) -> u64 {
    return select(0lu, x << (u32(amount) & 63u), amount < u64(width));
}

// As shl_u64; the amount is read as unsigned.
fn shl_i64(x: i64, amount: i64, width: u32) -> i64 {
    return i64(shl_u64(u64(x), u64(amount), width));
}

// x >> amount; 0 for an amount of the width, 64, or more.
fn shr_u64(x: u64, amount: u64, width: u32) -> u64 {
    return select(0lu, x >> (u32(amount) & 63u), amount < u64(width));
}

// x >> amount; the amount is read as unsigned, and the sign remains for one of the width, 64, or more.
fn shr_i64(x: i64, amount: i64, width: u32) -> i64 {
    return x >> select(63u, u32(amount) & 63u, u64(amount) < u64(width));
}

// -x, wrapped.
fn neg_i64(x: i64) -> i64 {
    return i64(0lu - u64(x));
}

// -x, wrapped.
fn neg_u64(x: u64) -> u64 {
    return 0lu - x;
}

// a + b, wrapped.
fn add_i64(a: i64, b: i64) -> i64 {
    return i64(u64(a) + u64(b));
}

// a - b, wrapped.
fn sub_i64(a: i64, b: i64) -> i64 {
    return i64(u64(a) - u64(b));
}

// a b, wrapped.
fn mul_i64(a: i64, b: i64) -> i64 {
    return i64(u64(a) * u64(b));
}

// The magnitude, wrapped: MIN for MIN.
fn abs_i64(x: i64) -> i64 {
    return select(x, i64(0lu - u64(x)), x < 0li);
}

// x itself.
fn abs_u64(x: u64) -> u64 {
    return x;
}

// -1, 0 or 1.
fn sign_i64(x: i64) -> i64 {
    return select(select(0li, 1li, x > 0li), -1li, x < 0li);
}

// 0 or 1.
fn sign_u64(x: u64) -> u64 {
    return select(0lu, 1lu, x != 0lu);
}

// The smaller.
fn min_i64(a: i64, b: i64) -> i64 {
    return select(b, a, a < b);
}

// The larger.
fn max_i64(a: i64, b: i64) -> i64 {
    return select(b, a, a > b);
}

// The smaller.
fn min_u64(a: u64, b: u64) -> u64 {
    return select(b, a, a < b);
}

// The larger.
fn max_u64(a: u64, b: u64) -> u64 {
    return select(b, a, a > b);
}
