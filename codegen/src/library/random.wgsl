// Random words: Philox-4x32 in ten rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers, 2011).

// The block of a number under a key: the words of which the number is a fourth.
fn random_block(number: u32, key0: u32, key1: u32) -> words4 {
    var c0 = number;
    var c1 = 0u;
    var c2 = 0u;
    var c3 = 0u;
    var k0 = key0;
    var k1 = key1;
    for (var round = 0; round < 10; round += 1) {
        let h0 = mul_high_u32(0xd2511f53u, c0);
        let l0 = 0xd2511f53u * c0;
        let h1 = mul_high_u32(0xcd9e8d57u, c2);
        let l1 = 0xcd9e8d57u * c2;
        c0 = (h1 ^ c1) ^ k0;
        c1 = l1;
        c2 = (h0 ^ c3) ^ k1;
        c3 = l0;
        k0 = k0 + 0x9e3779b9u;
        k1 = k1 + 0xbb67ae85u;
    }
    return words4(c0, c1, c2, c3);
}

// Word i % 4 of a block.
fn word_of(block: words4, i: u32) -> u32 {
    let low = select(block.x, block.y, (i & 1u) != 0u);
    let high = select(block.z, block.w, (i & 1u) != 0u);
    return select(low, high, (i & 2u) != 0u);
}
