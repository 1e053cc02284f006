"""Tables from outside: which columns are the target and the inputs, in which order, what is said and what is refused.

usage: test_columns.py PROGRAM
"""
import json
import os

from small_models import call, expect, need, np, numpy_helper, onnx, printed, run, train


def ordered():
    """Columns of numbers are found by name: in another order, with others between them, the target in front."""
    def write(name, names, change=lambda q: q):
        r = np.random.default_rng(3)
        rows = [{'p': r.random(), 'q': 10 * r.random(), 'r': 1, 's': -r.random(), 'price': i, 'more': 7} for i in range(40)]
        with open(name, 'w') as f:
            f.write(','.join(change(n) for n in names) + '\n' + ''.join(','.join(f'{q[n]:g}' for n in names) + '\n' for q in rows))

    write('trained.csv', 'p q r s price'.split())
    write('moved.csv', 'price s more q p r'.split())
    write('renamed.csv', 'p q r s price'.split(), str.upper)
    write('half.csv', 'p q r s price'.split(), lambda n: n.upper() if n in 'rs' else n)
    write('unknown.csv', 's p q r'.split())
    open('bare.csv', 'w').write(''.join(open('trained.csv').readlines()[1:]))
    train(0, '', 'value', 'trained.csv', '--optimizer', 'sgd:lr=0')
    need('names of columns change a file whose weights stay the same', open('out.onnx', 'rb').read() == open('value.onnx', 'rb').read())
    train(0, '', 'value', 'trained.csv', '--val', 'moved.csv', '--log', 'moved.jsonl')
    record = {p.key: p.value for p in onnx.load('out.onnx').metadata_props}.get('onnxtrain.preprocess')
    need(f'the record is {record}', json.loads(record or '{}') == {'columns': ['p', 'q', 'r', 's'], 'target': 'price'})
    os.replace('out.onnx', 'ordered.onnx')
    want = json.loads(printed('eval', 'ordered.onnx', '--data', 'trained.csv', '--json')[0])['loss']
    for name, said in ('moved', "column 'more' is not used"), ('renamed', 'the model records none of these columns; they are taken in their order'), ('bare', 'the table has no column names; its columns are taken in the order that the model records'):
        numbers, text = printed('eval', 'ordered.onnx', '--data', name + '.csv', '--json')
        need(f'{name}: {numbers}, {want} is right; {text}', json.loads(numbers)['loss'] == want and said in text)
    # A column of text beside them, and a choice that the record already has.
    with open('noted.csv', 'w') as f:
        f.write(''.join(line.strip() + (',note\n' if not i else f',n{i % 5}\n') for i, line in enumerate(open('trained.csv'))))
    for more in [], ['--inputs=-note']:
        numbers, text = printed('eval', 'ordered.onnx', '--data', 'noted.csv', '--json', *more)
        need(f'noted {more}: {numbers}; {text}', json.loads(numbers)['loss'] == want and "column 'note' is not used" in text
             and ('--inputs has no effect' in text) == bool(more))
    open('gap.csv', 'w').write(open('trained.csv').read().replace(',1,', ',,', 1))
    expect(4, "gap.csv: line 2, column 'r' has missing values; the model was trained with a number in each row", 'eval', 'ordered.onnx', '--data', 'gap.csv')
    expect(4, "half.csv: no column 'r', which the model was trained with", 'eval', 'ordered.onnx', '--data', 'half.csv')
    expect(4, "unknown.csv: no column 'price' for the target", 'eval', 'ordered.onnx', '--data', 'unknown.csv')
    numbers = [[line.split(',')[1] for line in printed('predict', 'ordered.onnx', name + '.csv')[0].splitlines() if line[:1].isdigit()]
               for name in ('trained', 'moved', 'unknown')]
    need('predictions depend on the order of the columns', numbers[0] == numbers[1] == numbers[2] and len(numbers[0]) == 40)
    # A record with means: --inputs does not measure again, a missing value is told.
    train(0, '', 'value', 'trained.csv', '--normalize', 'mean,std')
    os.replace('out.onnx', 'measured.onnx')
    want = json.loads(printed('eval', 'measured.onnx', '--data', 'trained.csv', '--json')[0])['loss']
    numbers, text = printed('eval', 'measured.onnx', '--data', 'noted.csv', '--json', '--inputs=-note')
    need(f'measured again: {numbers}, {want} is right; {text}', json.loads(numbers)['loss'] == want and '--inputs has no effect' in text)
    expect(0, "gap.csv: 1 missing value in 1 column is replaced by the mean of training; first: line 2, column 'r'", 'eval', 'measured.onnx', '--data', 'gap.csv')
    unit = 'for the unit of the data multiply by '
    expect(0, unit, 'predict', 'measured.onnx', 'trained.csv', '-o', 'p.npz')
    expect(0, unit, 'export', 'measured.onnx', '-o', 'deployed.onnx')
    expect(0, '', 'predict', 'measured.onnx', 'trained.csv', never=[unit])
    # Trained on, with columns chosen again or another target: the record has the target's scaling, or the other target.
    def record_of(path):
        return json.loads({p.key: p.value for p in onnx.load(path).metadata_props}['onnxtrain.preprocess'])

    train(0, '', 'measured', 'trained.csv', '--inputs', 'p,q,r,s')
    need(f"a target's scaling is lost: {record_of('out.onnx')}", record_of('out.onnx').get('targets') == record_of('measured.onnx')['targets'])
    train(0, '', 'measured', 'moved.csv', '--target', 'more')
    need(f"the target is another one: {record_of('out.onnx')}", record_of('out.onnx')['target'] == 'more')
    expect(2, 'which the model records: omit --normalize', 'eval', 'measured.onnx', '--data', 'trained.csv', '--normalize', 'mean,std')
    # Trained on: another table without these names replaces the record.
    os.replace('ordered.onnx', 'onward.onnx')
    train(0, '', 'onward', 'renamed.csv')
    record = {p.key: p.value for p in onnx.load('out.onnx').metadata_props}['onnxtrain.preprocess']
    need(f'the new record is {record}', json.loads(record) == {'columns': ['P', 'Q', 'R', 'S'], 'target': 'PRICE'})


def header_rows():
    """pandas writes numbers as names, and an index without a name; an option names a column of a table without numbers."""
    rows = [[i % 3, i % 7, 1, -i, i / 8] for i in range(30)]
    body = [','.join(map(str, r)) for r in rows]
    open('counted.csv', 'w').write('\n'.join(['0,1,2,3,4', *body]) + '\n')
    train(0, ['counted.csv: 30 samples', 'line 1 is taken as column names'], 'value', 'counted.csv')
    open('index.csv', 'w').write('\n'.join([',a,b,c,d,price', *(f'{i},{r}' for i, r in enumerate(body))]) + '\n')
    open('plain.csv', 'w').write('\n'.join(['a,b,c,d,price', *body]) + '\n')
    weights = []
    for name in 'index', 'plain':
        train(0, "column '(unnamed)' is not used: identifiers" if name == 'index' else '', 'value', name + '.csv', '--lr', '.01')
        weights.append([numpy_helper.to_array(w).tolist() for w in onnx.load('out.onnx').graph.initializer])
    need('an index of rows trains', weights[0] == weights[1])
    open('words.csv', 'w').write('a,kind\n' + 'x,u\n' * 3 + 'a,v\n' * 3)
    shown, said = printed('data', 'words.csv', '--target', 'kind')
    need(f'a name that --target has: {shown}{said}', '6 samples' in shown)
    # Two outputs, one of which learns strings.
    open('two.csv', 'w').write('\n'.join(['a,b,c,d,kind,price', *(f"{','.join(b.split(',')[:4])},{'uvw'[i % 3]},{i / 4}" for i, b in enumerate(body))]) + '\n')
    train(0, ["strings in column 'kind' are 3 classes", "loss cross_entropy on output 'cls'", "loss mse on output 'reg'"], 'two', 'two.csv',
          '--target', 'cls=kind;reg=price')


def tables():
    train(0, "t.csv: the target is column 'price', the last one (change with --target)", 'value', 't.csv')
    train(0, "named.csv: the target is column 'target' (change with --target)", 'value', 'named.csv')
    need_same = open('out.onnx', 'rb').read()
    train(0, '', 'value', 'named.csv', '--target', 'target', never=[', the last'])
    need('--target target is another column', need_same == open('out.onnx', 'rb').read())
    train(2, ['--normalize 1/255', 't.csv', 'table columns are fed unchanged'], 'value', 't.csv', '--normalize', '1/255')
    # Beside each other: the same columns, the same number for the same class.
    def write(name, head, last):
        with open(name, 'w') as f:
            f.write(head + ''.join(f'{i},{i % 7},1,{-i},{last(i)}\n' for i in range(12)))

    write('abc.csv', 'p,q,r,s,kind\n', lambda i: 'abc'[i % 3])
    write('bc.csv', 'p,q,r,s,kind\n', lambda i: 'bc'[i % 2])
    write('mixed.csv', 'q,p,r,t,kind\n', lambda i: 'bc'[i % 2])
    write('d.csv', 'p,q,r,s,kind\n', lambda i: 'abd'[i % 3])
    write('numbers.csv', 'p,q,r,s,kind\n', lambda i: i % 3)
    write('as_abc.csv', 'p,q,r,s,kind\n', lambda i: 1 + i % 2)
    accuracy = []
    for data, val in ('abc.csv', 'bc.csv'), ('numbers.csv', 'as_abc.csv'):
        _, said = call('one.onnx', '--data', data, '--val', val, '--steps', '1', '--optimizer', 'sgd:lr=0', '--run-dir', 'run', '-o', 'out.onnx')
        accuracy += [line.split('(')[0] for line in said.splitlines() if line.startswith('epoch 1: val')]
    need(f'classes of --val have other numbers: {accuracy}', len(accuracy) == 2 and accuracy[0] == accuracy[1])
    train(4, "mixed.csv: no column 's', which the model was trained with; its columns are:", 'one', 'abc.csv', '--val', 'mixed.csv')
    train(4, "d.csv: column 'kind' has class 'd', which is not in abc.csv", 'one', 'abc.csv', '--val', 'd.csv')
    train(4, "numbers.csv: column 'kind' contains numbers, but in abc.csv it contains strings", 'one', 'abc.csv', '--val', 'numbers.csv')
    open('wide.csv', 'w').write('a,b,c,d,e,price\n1,2,3,4,5,6\n')
    rows = [f'{i},{i % 7},1,{-i},{i / 8}' for i in range(40)]
    rows[30] = '1,2,3,4,n.k.'
    open('stray.csv', 'w').write('a,b,c,d,price\n' + '\n'.join(rows) + '\n')
    for more in [], ['--loss', 'mse']:
        train(4, "stray.csv: line 32, column 'price': contains 'n.k.'; expected a number as in 39 other rows", 'value', 'stray.csv', *more)
    train(4, "wide.csv: input 'x' is [?,4], but the data without the target is [1,5]", 'value', 'wide.csv')
    # A class that is out of range: where it stands in the file.
    open('high.csv', 'w').write('a,b,c,d,kind\n1,2,3,4,0\n\n5,6,7,8,3\n')
    train(4, "high.csv: target 'kind': line 4 has class 3, but output 'out' has 3 classes, 0 to 2", 'one', 'high.csv')
    train(4, 'hinge compares the scores of several classes, but this output has one', 'value', 'zeros.npz', '--loss', 'hinge')
    train(4, ["high.csv: target 'kind': line 4 has class 3, but output 'out' has 1 class, 0 to 0", 'bce_with_logits'], 'value', 'high.csv',
          '--loss', 'cross_entropy')


def headers():
    """What is taken for names is said; two targets are none."""
    rows = '1,2,1,4\n' * 6
    open('typo.csv', 'w').write('1,2,x,4\n' + rows)
    train(0, 'typo.csv: line 1 is taken as column names, although it contains numbers', 'reg3', 'typo.csv')
    open('words.csv', 'w').write('a,e,x,price\n' + rows)
    train(0, "the target is column 'price'", 'reg3', 'words.csv', never=['is taken as column names'])
    open('twice.csv', 'w').write('target,a,b,target\n' + rows)
    train(4, "twice.csv: 2 columns are named 'target'", 'reg3', 'twice.csv')


run((tables, header_rows, ordered, headers), 'columns of tables')
