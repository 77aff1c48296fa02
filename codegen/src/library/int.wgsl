// Integers of 32 bits, which also hold those of 8 and 16: results of these are wrapped afterwards.

// The lowest 8 bits as a signed number.
fn wrap_i8(x: i32) -> i32 {
    return i32(u32(x) << 24u) >> 24u;
}

// The lowest 16 bits as a signed number.
fn wrap_i16(x: i32) -> i32 {
    return i32(u32(x) << 16u) >> 16u;
}

// The lowest 8 bits.
fn wrap_u8(x: u32) -> u32 {
    return x & 0xffu;
}

// The lowest 16 bits.
fn wrap_u16(x: u32) -> u32 {
    return x & 0xffffu;
}

// The quotient rounded down; 0 for a zero divisor, MIN for MIN / -1.
fn floor_div_i32(a: i32, b: i32) -> i32 {
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return i32(0u - u32(a));
    }
    let q = a / b;
    let r = a - (q * b);
    return select(q, q - 1, (r != 0) && ((r ^ b) < 0));
}

// The remainder with the divisor's sign; 0 for a zero divisor.
fn rem_i32(a: i32, b: i32) -> i32 {
    if ((b == 0) || (b == -1)) {
        return 0;
    }
    let r = a - ((a / b) * b);
    return select(r, r + b, (r != 0) && ((r ^ b) < 0));
}

// The quotient; 0 for a zero divisor.
fn floor_div_u32(a: u32, b: u32) -> u32 {
    if (b == 0u) {
        return 0u;
    }
    return a / b;
}

// The remainder; 0 for a zero divisor.
fn rem_u32(a: u32, b: u32) -> u32 {
    if (b == 0u) {
        return 0u;
    }
    return a % b;
}

// a^b, wrapped.
fn pow_u32(a: u32, b: u32) -> u32 {
    var result = 1u;
    var square = a;
    var rest = b;
    while (rest != 0u) {
        if ((rest & 1u) != 0u) {
            result = result * square;
        }
        square = square * square;
        rest = rest >> 1u;
    }
    return result;
}

// a^b, wrapped; for a negative b 0, except for the bases 1 and -1.
fn pow_i32(a: i32, b: i32) -> i32 {
    if (b < 0) {
        if (a == 1) {
            return 1;
        }
        if (a == -1) {
            return select(1, -1, (b & 1) != 0);
        }
        return 0;
    }
    return i32(pow_u32(u32(a), u32(b)));
}

// x << amount in a type of this width (8, 16 or 32), to be wrapped; 0 for an amount of the width or more.
fn shl_u32(x: u32, amount: u32, width: u32) -> u32 {
    return select(0u, x << (amount & 31u), amount < width);
}

// As shl_u32; the amount is read as unsigned.
fn shl_i32(x: i32, amount: i32, width: u32) -> i32 {
    return i32(shl_u32(u32(x), u32(amount), width));
}

// x >> amount in a type of this width (8, 16 or 32); 0 for an amount of the width or more.
fn shr_u32(x: u32, amount: u32, width: u32) -> u32 {
    return select(0u, x >> (amount & 31u), amount < width);
}

// x >> amount in a type of this width; the amount is read as unsigned, and for one of the width or more only the sign
// remains.
fn shr_i32(x: i32, amount: i32, width: u32) -> i32 {
    return x >> select(31u, u32(amount) & 31u, u32(amount) < width);
}

// -x, wrapped.
fn neg_i32(x: i32) -> i32 {
    return i32(0u - u32(x));
}

// -x, wrapped.
fn neg_u32(x: u32) -> u32 {
    return 0u - x;
}

// a + b, wrapped.
fn add_i32(a: i32, b: i32) -> i32 {
    return i32(u32(a) + u32(b));
}

// a - b, wrapped.
fn sub_i32(a: i32, b: i32) -> i32 {
    return i32(u32(a) - u32(b));
}

// a b, wrapped.
fn mul_i32(a: i32, b: i32) -> i32 {
    return i32(u32(a) * u32(b));
}

// The magnitude, wrapped: MIN for MIN.
fn abs_i32(x: i32) -> i32 {
    return select(x, i32(0u - u32(x)), x < 0);
}

// x itself.
fn abs_u32(x: u32) -> u32 {
    return x;
}

// -1, 0 or 1.
fn sign_i32(x: i32) -> i32 {
    return select(select(0, 1, x > 0), -1, x < 0);
}

// 0 or 1.
fn sign_u32(x: u32) -> u32 {
    return select(0u, 1u, x != 0u);
}

// The smaller.
fn min_i32(a: i32, b: i32) -> i32 {
    return select(b, a, a < b);
}

// The larger.
fn max_i32(a: i32, b: i32) -> i32 {
    return select(b, a, a > b);
}

// The smaller.
fn min_u32(a: u32, b: u32) -> u32 {
    return select(b, a, a < b);
}

// The larger.
fn max_u32(a: u32, b: u32) -> u32 {
    return select(b, a, a > b);
}
