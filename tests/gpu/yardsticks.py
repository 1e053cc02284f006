"""What the device does outside our program, printed as JSON: its properties as cuDNN writes them, and by PyTorch the bandwidth of a
copy, products of random matrices, and what a node of a captured graph costs.

usage: yardsticks.py [--describe FILE]     FILE: cuDNN reads the description and writes it back; no device is needed
"""
import ctypes
import json
import sys
import time


def described(text=None):
    """cuDNN's JSON of device 0, or of what `text` says; its graph interface: descriptor 38, attributes 2700 and 2702."""
    try:
        import torch  # loads the libraries that came with it
        _ = torch.backends.cudnn.version()
    except ImportError:
        pass
    lib = ctypes.CDLL('libcudnn.so.9')
    lib.cudnnBackendSetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p]
    lib.cudnnBackendGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    lib.cudnnBackendFinalize.argtypes = [ctypes.c_void_p]
    of_device, of_json, of_int32, of_char = 2700, 2702, 23, 24
    d, n = ctypes.c_void_p(), ctypes.c_int64()

    def good(status, what):
        if status:
            raise OSError(f'{what}: cuDNN status {status}')

    good(lib.cudnnBackendCreateDescriptor(38, ctypes.byref(d)), 'a descriptor')
    if text is None:
        good(lib.cudnnBackendSetAttribute(d, of_device, of_int32, 1, ctypes.byref(ctypes.c_int32(0))), 'device 0')
    else:
        good(lib.cudnnBackendSetAttribute(d, of_json, of_char, len(text) + 1, ctypes.c_char_p(text.encode())), 'the description')
    good(lib.cudnnBackendFinalize(d), 'the properties')
    good(lib.cudnnBackendGetAttribute(d, of_json, of_char, 0, ctypes.byref(n), None), 'their length')
    out = ctypes.create_string_buffer(n.value + 1)
    good(lib.cudnnBackendGetAttribute(d, of_json, of_char, n.value, ctypes.byref(n), out), 'their text')
    return json.loads(out.value.decode())


def between(run, seconds=0.3):
    """Median seconds of run() by events, on a warm device."""
    import torch
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    times = []
    for _ in range(10):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) * 1e-3)
    return sorted(times)[len(times) // 2]


def graph_node():
    """Seconds that each further kernel of a captured graph takes, where it does nothing else."""
    import torch
    x = torch.zeros(32, device='cuda')

    def captured(n):
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            for _ in range(n):
                x.add_(1)
        return g

    x.add_(1)
    torch.cuda.synchronize()
    few, many = captured(10), captured(1010)
    return (between(many.replay) - between(few.replay)) / 1000


def measured():
    import torch
    found = {'device': torch.cuda.get_device_name(0), 'torch': torch.__version__, 'cuda': torch.version.cuda,
             'cudnn': torch.backends.cudnn.version()}
    a = torch.empty(1 << 30, dtype=torch.uint8, device='cuda').random_()
    b = torch.empty_like(a)
    found['copy_bytes_per_second'] = 2 * a.numel() / between(lambda: b.copy_(a))
    del a, b
    for name, n, kind, tf32 in [('bf16', 8192, torch.bfloat16, False), ('fp16', 8192, torch.float16, False), ('tf32', 8192, torch.float32, True),
                                ('fp32', 4096, torch.float32, False)]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, y = (torch.randn(n, n, device='cuda').to(kind) for _ in range(2))
        found[f'{name}_flops_per_second'] = 2 * n ** 3 / between(lambda: x @ y)
    found['graph_node_seconds'] = graph_node()
    return found


def main():
    if sys.argv[1:2] == ['--describe']:
        print(json.dumps(described(open(sys.argv[2]).read())))
        return 0
    found = {}
    for name, make in (('measured', measured), ('description', described)):
        try:
            found[name] = make()
        except Exception as e:
            found[f'{name}_error'] = f'{type(e).__name__}: {e}'[:400]
    print(json.dumps(found))
    return 0


if __name__ == '__main__':
    sys.exit(main())
