"""The network of lora.json, and what its training starts from: shared by make_lora.py and test_lora.py."""
import numpy as np

WIDTHS, RANK, ALPHA, SEED, STEPS, BATCH, LR = (6, 10, 8, 4), 2, 6, 5, 8, 16, 0.02
NAMES = ('fc1.weight', 'fc2.weight', 'conv.weight', 'fc3.weight')


def weights():
    """fc1 (out, in), fc2 (in, out), conv (out, in, 3), fc3 (in, out), and biases."""
    made = np.random.default_rng(8)
    shapes = {'fc1.weight': (10, 6), 'fc1.bias': (10,), 'fc2.weight': (10, 8), 'conv.weight': (3, 1, 3), 'conv.bias': (3,), 'fc3.weight': (18, 4), 'fc3.bias': (4,)}
    return {n: made.standard_normal(s) / 2 for n, s in shapes.items()}


def data():
    made = np.random.default_rng(9)
    return made.standard_normal((48, 6)), np.arange(48) % 4


def philox(seed, counter, stream):
    """Philox4x32-10 (Salmon et al. 2011) of one 128-bit counter."""
    mask, c = (1 << 32) - 1, [counter & ((1 << 32) - 1), counter >> 32, stream & ((1 << 32) - 1), stream >> 32]
    k = [seed & mask, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def uniform(name, shape, bound, seed=SEED):
    """What onnxtrain fills a new tensor of that name with."""
    h = 14695981039346656037
    for byte in name.encode():
        h = (h ^ byte) * 1099511628211 % (1 << 64)
    n = int(np.prod(shape))
    bits = np.array([v for i in range((n + 3) // 4) for v in philox(seed, i, 2 << 32 | (h & ((1 << 32) - 1)))][:n], 'u8')
    return (bound * (2 * ((bits >> 8).astype('f4') * np.float32(2 ** -24)).astype('f8') - 1)).reshape(shape)


def starts():
    """A and B of every adapter as they begin."""
    w, out = weights(), {}
    for n in NAMES:
        rows, cols = (w[n].shape[1], w[n].shape[0]) if n == 'fc1.weight' else w[n].shape[:2]
        if n == 'conv.weight':
            out[n] = (uniform(n + '/lora_A', (RANK, 1, 3), 1 / np.sqrt(3)), np.zeros((3, RANK, 1)))
        else:
            out[n] = (uniform(n + '/lora_A', (rows, RANK), 1 / np.sqrt(rows)), np.zeros((RANK, cols)))
    return out
