"""How the package behaves as a guest of the interpreter: errors, threads, processes, signals, devices."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import millstream as ms


def here():
    """The line of the caller."""
    return sys._getframe(1).f_lineno


def test_an_error_names_the_line_of_the_call_and_what_helps():
    line = here() + 2
    with pytest.raises(ValueError) as caught:
        ms.ones((2, 3)) + ms.ones(4)
    text = str(caught.value)
    assert "[2, 3] and [4] do not fit together" in text and f"{__file__}:{line}" in text and ".rs" not in text
    with pytest.raises(TypeError, match="try: "):
        ms.asarray([1], dtype="uint64") + ms.asarray([1], dtype="int64")
    # Compositions written in Python are no place of the program.
    line = here() + 2
    with pytest.raises(ValueError) as caught:
        ms.linalg.eigh(ms.ones((2, 3)))
    assert f"{__file__}:{line}" in str(caught.value)


@pytest.mark.parametrize(
    "kind, call",
    [
        (ms.AxisError, lambda: ms.ones(3).sum(axis=1)), (ValueError, lambda: ms.ones(3).sum(axis=1)), (IndexError, lambda: ms.ones(3).sum(axis=-2)),
        (IndexError, lambda: ms.ones(3)[3]), (TypeError, lambda: ms.ones(3) & 1.5), (TypeError, lambda: ms.ones(3) + "a"), (TypeError, lambda: ms.ones(3) + object()),
        (ms.DeviceError, lambda: ms.ones(3, device="abacus:0")), (ms.DeviceError, lambda: ms.device("cuda:77")), (ValueError, lambda: ms.ones(3).reshape(2, 2)),
        (ValueError, lambda: ms.zeros((-1,))), (TypeError, lambda: ms.zeros(2.5)), (MemoryError, lambda: (ms.ones((1 << 45,), dtype="int8") + 1).eval()),
        (FileNotFoundError, lambda: ms.load("no/such/file.npy")), (ValueError, lambda: ms.einsum("ij->k", ms.ones((2, 2)))),
    ],
)  # fmt: skip
def test_kinds_of_errors(kind, call):
    with pytest.raises(kind):
        call()


def test_pickles_keep_values_and_dtype():
    for x in [ms.arange(6).reshape(2, 3).T, ms.asarray(1.5), ms.zeros((0, 3)), ms.asarray([1 + 2j])]:
        back = pickle.loads(pickle.dumps(x))
        assert back.tolist() == x.tolist() and back.dtype == x.dtype and back.shape == x.shape
    assert pickle.loads(pickle.dumps(ms.device("cpu"))) == "cpu"


def test_a_block_names_the_device_of_new_arrays():
    assert "cpu" in ms.devices() and ms.default_device() == "cpu"
    with ms.device("cpu") as device:
        assert ms.ones(3).device == device and ms.default_device() == device
    x = ms.ones(3).to_device("cpu")
    assert x.device == ms.device("cpu") != "cuda:0" and len({ms.device("cpu"), ms.device("cpu")}) == 1
    assert (x + ms.asarray([1, 2, 3], device="cpu")).tolist() == [2.0, 3.0, 4.0]


def test_threads_compute_at_once():
    wrong = []

    def work(seed):
        try:
            generator = np.random.default_rng(seed)
            for _ in range(30):
                a = generator.random((8, 8)).astype("f4")
                x = ms.asarray(a)
                if not np.allclose(np.asarray((x @ x + x).tolist()), a @ a + a, rtol=1e-4):
                    wrong.append(seed)
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_share_an_array_that_one_assigns_to():
    x, stop, wrong = ms.zeros(64, dtype="int64"), threading.Event(), []

    def read():
        while not stop.is_set():
            seen = set(x.tolist())
            if len(seen) != 1:
                wrong.append(seen)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for i in range(200):
        x[...] = i
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong and x.tolist() == [199] * 64


def ticks_while(work):
    """How often another thread runs while this one works."""
    count, stop = 0, threading.Event()

    def tick():
        nonlocal count
        while not stop.is_set():
            count += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    time.sleep(0.01)
    before, began = count, time.perf_counter()
    work()
    seconds, ran = time.perf_counter() - began, count - before
    stop.set()
    thread.join()
    return ran, seconds


@pytest.mark.parametrize("how", ["eval", "item", "mask", "bound", "compiled"])
def test_other_threads_run_while_something_is_computed(how):
    x = ms.asarray(np.random.rand(700, 700))

    def product(x):
        for _ in range(6):
            x = x @ x / 700
        return x

    compiled = ms.compile(product)
    work = {
        "eval": lambda: product(x).eval(),
        "item": lambda: product(x).sum().item(),
        "mask": lambda: x[product(x) > 0.5],
        # More operations than may wait: the last ones compute the others.
        "bound": lambda: [y := product(x)] and [y := y + 1 for _ in range(520)],
        "compiled": lambda: compiled(x),
    }[how]
    work()
    # The work is long beside a turn of the other thread; each turn needs the interpreter.
    ran, seconds = ticks_while(work)
    assert ran >= 3, f"{ran} turns in {seconds} s"


def run(program, **kwargs):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120, **kwargs)


def test_an_interrupt_ends_a_program_that_computes():
    program = """
        import signal
        import millstream as ms
        # Shells have background jobs ignore it, and Python leaves that as it is.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        x = ms.ones((300, 300))
        print("ready", flush=True)
        while True:
            x = (x @ x / 300).eval()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors and process.returncode != 0


LONG = {
    # Many kernels.
    "plan": "y = x\nfor _ in range(400): y = y @ x / 700\nwork = y.eval",
    # One kernel of many tasks.
    "kernel": "big = ms.ones((20000, 2000)).eval()\nwork = (big @ big.T).sum().item",
    # What is described computes what waits.
    "bound": "def work():\n    y = x\n    for _ in range(3000): y = y @ x / 700\n    return y",
    "compiled": "@ms.compile\ndef step(x):\n    y = x\n    for _ in range(400): y = y @ x / 700\n    return y\nwork = lambda: step(x).eval()",
    "print": "y = x\nfor _ in range(400): y = y @ x / 700\nwork = lambda: str(y)",
}


@pytest.mark.parametrize("how", LONG)
def test_an_interrupt_ends_a_long_computation(how):
    program = f"""
import os, signal, threading, time
import millstream as ms
signal.signal(signal.SIGINT, signal.default_int_handler)
def interrupt():
    interrupt.at = time.perf_counter()
    os.kill(os.getpid(), signal.SIGINT)
with ms.device("cpu"):
    x = ms.ones((700, 700)).eval()
    (x @ x / 700).sum().item()
{textwrap.indent(LONG[how], "    ")}
    threading.Timer(0.3, interrupt).start()
    try:
        work()
        print("it was not long")
    except KeyboardInterrupt:
        print(time.perf_counter() - interrupt.at)
    assert (x + 1).sum().item() == 980000.0
    z = (x @ x / 700)[0, :3].tolist()
    assert z == [1.0, 1.0, 1.0], z
print("done", flush=True)
os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    lines = ran.stdout.split("\n")
    assert lines[1:] == ["done", ""], ran.stdout + ran.stderr
    assert float(lines[0]) < 5, ran.stdout


def test_a_handler_that_raises_nothing_lets_the_computation_go_on():
    program = """
        import os, signal, threading
        import millstream as ms
        seen = []
        def handler(number, frame):
            # It may compute, too.
            seen.append(float((ms.ones(4) + 1).sum()))
        signal.signal(signal.SIGINT, handler)
        x = ms.ones((700, 700))
        for _ in range(200):
            x = x @ x / 700
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        print(x.sum().item(), seen, timer.is_alive())
    """
    ran = run(program)
    assert ran.stdout == "490000.0 [8.0] False\n", ran.stdout + ran.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_fork_computes_on(threads):
    program = """
        import os, millstream as ms
        x = ms.asarray([[float(i * j % 7) for j in range(400)] for i in range(400)])
        before = float((x @ x).sum())
        for _ in range(3):
            child = os.fork()
            if child == 0:
                same = float((x @ x).sum()) == before and float(ms.nn.softmax(x).sum()) > 399
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
        print(float((x @ x).sum()) == before)
    """
    ran = run(program, env={**os.environ, "MILLSTREAM_THREADS": threads})
    assert ran.stdout == "True\n", ran.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_cannot_use_the_gpu_of_its_parent():
    names = [name for name in ms.devices() if name.startswith(("cuda", "vulkan"))]
    if not names:
        pytest.skip("no GPU and no driver of one in software")
    program = f"""
        import os, millstream as ms
        x = ms.ones(4, device="{names[0]}") + 1
        x.eval()
        child = os.fork()
        if child == 0:
            try:
                (x + 1).tolist()
            except ms.DeviceError as error:
                os._exit(0 if "spawn" in str(error) and ms.ones(3).tolist() == [1.0, 1.0, 1.0] else 1)
            os._exit(2)
        print(os.waitpid(child, 0)[1], x.tolist())
    """
    ran = run(program)
    assert ran.stdout == "0 [2.0, 2.0, 2.0, 2.0]\n", ran.stdout + ran.stderr


def square(x):
    return x * x


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_exchange_arrays(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("not on this system")
    with multiprocessing.get_context(method).Pool(2) as pool:
        made = pool.map(square, [ms.asarray([float(i)]) for i in range(6)])
    assert [float(x) for x in made] == [0.0, 1.0, 4.0, 9.0, 16.0, 25.0]


def test_importing_needs_neither_numpy_nor_much():
    ran = run("import sys, millstream; print(sorted(set(sys.modules) & {'numpy', 'typing', 'torch'}))")
    assert ran.stdout.strip() in ("[]", "['typing']"), ran.stdout + ran.stderr


def test_deep_graphs_and_dropped_arrays():
    x = ms.ones(10)
    for _ in range(20000):
        x = x + 1
    del x
    y = ms.ones(3)
    for _ in range(3000):
        y = y * 1.0
    assert y.tolist() == [1.0, 1.0, 1.0]
