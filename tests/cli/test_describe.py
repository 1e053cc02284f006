"""What `data` says of a set: ranges, counts of classes, samples that occur twice or in two parts, in text and JSON.

usage: test_describe.py PROGRAM
"""
import json
import os
import tempfile

from scripts import call, check, finish, np


def arrays(d):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((40, 3)).astype('f4')
    y = np.arange(40) % 3
    x[7], y[7] = x[3], 1 + y[3] % 2   # twice, with another target
    x[9], y[9] = x[4], y[4]           # twice
    np.savez(f'{d}/train.npz', x=x, target=y)
    v = rng.standard_normal((10, 3)).astype('f4')
    v[2], v[5] = x[0], x[3]
    np.savez(f'{d}/val.npz', x=v, target=np.array([0, 1, y[0], 0, 0, y[3], 1, 1, -100, 2]))
    return x, y


with tempfile.TemporaryDirectory() as d:
    x, y = arrays(d)
    j = json.loads(call('data', f'{d}/train.npz', '--val', f'{d}/val.npz', '--json').stdout)
    train, val = j['training'], j['val']
    a = {one['name']: one for one in train['arrays']}
    check(train['samples'] == 40 and a['x']['shape'] == [40, 3] and a['x']['type'] == 'float32', train)
    for key, value in ('min', x.min()), ('max', x.max()), ('mean', x.mean(dtype='f8')), ('std', x.std(dtype='f8')):
        check(abs(a['x'][key] - value) < 1e-9, f'{key} {a["x"][key]} {value}')
    check([c['samples'] for c in a['target']['classes']] == list(np.bincount(y)), a['target'])
    check((train['repeated'], train['other_target']) == (2, 1), train)
    check((val['repeated'], val['in_training'], val['other_target']) == (0, 2, 0), val)
    text = call('data', f'{d}/train.npz', '--val', f'{d}/val.npz').stdout
    for line in ('2 of 40 samples repeat', '1 of 40 samples has the inputs of another one and a different target',
                 '2 of 10 samples are in the training part', '1 label of -100 is ignored'):
        check(line in text, f'{line}: {text}')

    names = ['red', 'green', 'blue\x1b[31m']
    open(f'{d}/t.csv', 'w').write('a,target\n' + ''.join(f'{i},{names[i % 3]}\n' for i in range(30)))
    text = call('data', f'{d}/t.csv').stdout
    check('green' in text and '\x1b' not in text and '33.33 %' in text and 'no sample repeats' in text, text)
    check("\n  the target is column 'target' (change with --target)" in text, text)
    open(f'{d}/kinds.csv', 'w').write('a,b,target\n' + ''.join(f'{i},{names[i % 2]},{names[i % 3]}\n' for i in range(30)))
    text = call('data', f'{d}/kinds.csv').stdout
    for line in ('2 columns, 3 elements:', '  a                    number, mean', '  b                    category, 2 values, one-hot'):
        check(f'\n  {line}' in text, f'{line}: {text}')
    check('for input' not in text, text)
    text = call('data', f'{d}/kinds.csv', '--inputs=-b').stdout
    check("column 'b' is not used" in text and '1 column' not in text.split('float32')[0] and '[30,1]' in text, f'--inputs: {text}')
    rows = [f'{i * 7 % 30},{names[i % 2]},{i}\n' for i in range(30)]  # the others have another mean and a word of their own
    open(f'{d}/gap.csv', 'w').write('a,b,target\n,red,0\n' + ''.join(rows))
    open(f'{d}/part.csv', 'w').write('a,b,target\n' + ''.join(rows[4:9]) + '500,violet,3\n')
    text = call('data', f'{d}/gap.csv', '--val', f'{d}/part.csv').stdout
    check('5 of 6 samples are in the training part' in text and "column 'b': 1 value is not among the categories" in text, text)
    # parts of a set itself: a column of a table names them, or folders do
    open(f'{d}/parts.csv', 'w').write('a,part,target\n' + ''.join(f'{i},{("train", "train", "val", "test")[i % 4]},{i % 3}\n' for i in range(32)))
    j = json.loads(call('data', f'{d}/parts.csv', '--split', 'part', '--json').stdout)
    check({k: j[k]['samples'] for k in j} == {'training': 16, 'val': 8, 'test': 8}, list(j))
    for name in ('train/a', 'train/b', 'val/a', 'val/b'):
        os.makedirs(f'{d}/folder/{name}')
        open(f'{d}/folder/{name}/1.pgm', 'wb').write(b'P5 2 2 255\n' + bytes(4))
    text = call('data', f'{d}/folder').stdout
    check('folder, training: 2 samples' in text and 'folder, val: 2 samples' in text, text)
    open(f'{d}/bad\x1b[31m.csv', 'w').write('a\x1b[31m,b\x1b[32m,target\n' + ''.join(f'{i},,{names[i % 2]}\n' for i in range(30)))
    check('\x1b' not in call('data', f'{d}/bad\x1b[31m.csv').stdout, 'control characters of names')
    open(f'{d}/texts.csv', 'w').write('text,label\n' + ''.join(f'a text that has the number {i * i},{names[i % 2]}\n' for i in range(30)))
    check('--tokenizer PATH or --text bytes' in call('data', f'{d}/texts.csv', code=4).stderr, 'a column of texts')
    text = call('data', f'{d}/texts.csv', '--text', 'bytes').stdout
    check("\n  column 'text' goes to input 'input_ids' as bytes" in text and 'attention_mask' not in text, text)
    check("column 'text' goes to" in json.loads(call('data', f'{d}/texts.csv', '--text', 'bytes', '--json').stdout)['training']['notes'][0], 'notes')
    # the column `label` is the target of texts; of other tables the last column
    for ending, line in ('csv', '{2},{0},{1}\n'), ('jsonl', '{{"label": "{2}", "text": "{0}", "n": {1}}}\n'):
        with open(f'{d}/label.{ending}', 'w') as file:
            file.writelines((['label,text,n\n'] if ending == 'csv' else []) + [line.format(f'a text of the number {i * i}', i, names[i % 2]) for i in range(30)])
        for options in (), ('--text', 'bytes'):
            text = call('data', f'{d}/label.{ending}', *options).stdout
            why = "'label', by its name" if options else "'n', the last one"
            check(f'\n  the target is column {why} (change with --target)' in text, f'{ending} {options}: {text}')
    open(f'{d}/tags.jsonl', 'w').write('{"tokens": ["a", "b"], "tags": ["X", "Y"]}\n{"tokens": ["cde"], "tags": ["X"]}\n')
    check('3 labels of -100 are ignored' in (text := call('data', f'{d}/tags.jsonl', '--text', 'bytes').stdout), f'tokens without a tag: {text}')
    open(f'{d}/first.csv', 'w').write('kind,text\n' + ''.join(f'{names[i % 2]},a text of the number {i * i}\n' for i in range(30)))
    check("column 'kind', the first without text (" in call('data', f'{d}/first.csv', '--text', 'bytes').stdout, 'why that column')
    open(f'{d}/gaps.csv', 'w').write('a,Größe,preis\n' + ''.join(f'{i},{i * i % 7},{"" if i % 10 == 4 else i / 4}\n' for i in range(30)))
    text = call('data', f'{d}/gaps.csv').stdout  # a target with gaps is described too; a training refuses it
    check("the target (column 'preis') is missing in 3 of 30 rows, first in line 6" in text and '3 NaN or infinite' in text and 'most models cannot train with this' in text, text)
    check('"preis"' not in text and "missing in 3 of 30 rows" in call('data', f'{d}/gaps.csv', '--target', 'preis').stdout, '--target')
    open(f'{d}/gaps.csv', 'w').write('Größe,b,kind\n' + ''.join(f'{i},{names[i % 2]},{"" if i % 10 == 4 else names[i % 2]}\n' for i in range(30)))
    text = call('data', f'{d}/gaps.csv').stdout
    check("(column 'kind') is missing in 3 of 30 rows" in text and '; 3 are missing' in text and '-100' not in text, text)
    open(f'{d}/one.csv', 'w').write('a,kind\n1,x\n4,y\n7,\n1,x\n')
    text = call('data', f'{d}/one.csv').stdout
    check('; 1 is missing\n' in text and '1 of 4 samples repeats the inputs' in text, f'one of each: {text}')
    text = call('data', f'{d}/gaps.csv').stdout
    check('\n    Größe                number' in text and '\n    b                    category' in text, f'columns of a terminal: {text}')
    open(f'{d}/labels.csv', 'w').write('a,p,q,r\n' + ''.join(f'{i},{i % 2},{int(i % 3 == 0)},0\n' for i in range(30)))
    several = '--target', 'p,q,r'
    text = call('data', f'{d}/labels.csv', *several).stdout
    check('3 labels' in text and 'classes' not in text, text)
    for line in '0 p                           15  50.00 %', '1 q                           10  33.33 %', '2 r                            0   0.00 %':
        check(line in text, f'{line}: {text}')
    of = [a for a in json.loads(call('data', f'{d}/labels.csv', *several, '--json').stdout)['training']['arrays'] if a['role'] == 'target'][0]
    check(of['labels'] == [{'name': 'p', 'samples': 15}, {'name': 'q', 'samples': 10}, {'name': 'r', 'samples': 0}] and 'classes' not in of, of)
    check('a column of 0 and 1 for each of its values' in call('data', f'{d}/kinds.csv', '--target', 'a,b', code=4).stderr, 'strings among several targets')
    x[1, 1] = np.nan
    np.savez(f'{d}/nan.npz', x=x)
    text = call('data', f'{d}/nan.npz').stdout
    check('1 NaN or infinite' in text and '\n  most models cannot train with this: x: sample 1 contains NaN\n' in text, text)
    open(f'{d}/inf.csv', 'w').write('a,b,target\n' + ''.join(f'{"inf" if i == 5 else i},{names[i % 2]},{i}\n' for i in range(30)))
    text = call('data', f'{d}/inf.csv').stdout
    check("\n  most models cannot train with this: line 7, column 'a': contains infinity" in text, text)
    check("line 7, column 'a'" in json.loads(call('data', f'{d}/inf.csv', '--json').stdout)['training']['problem'], 'a problem in JSON')
    call('data', f'{d}/none.csv', code=7)
    call('data', 'nothing-known', code=4)
    check('1000000' not in call('data', f'{d}/train.npz', '--target', 'nope', code=4).stdout, '--target')
    check(not os.path.exists(f'{d}/runs'), 'a run folder')
finish('descriptions')
