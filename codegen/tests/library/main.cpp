
// library NAME FILE: applies the function to the words in the file, writes the results.
int main(int count, char** list) {
    FILE* file = count == 3 ? fopen(list[2], "rb") : nullptr;
    if (!file) return 2;
    Words in, out;
    u64 part[4096];
    while (size_t n = fread(part, 8, 4096, file)) in.insert(in.end(), part, part + n);
    if (!apply(list[1], in.data(), in.data() + in.size(), out)) return 3;
    fwrite(out.data(), 8, out.size(), stdout);
    return 0;
}
