/** Shell commands: which of them only read, and which have the same effect. */

import { describe, expect, it } from 'vitest';
import { namesOfForm } from '../../../src/student/model/answer-form.ts';
import type { StudentBlock } from '../../../src/student/model/decision.ts';
import { differInLooks } from '../../../src/student/model/equivalence.ts';
import { isLookCall, nameOfUse } from '../../../src/student/model/look-calls.ts';
import { spellAnswer } from '../../../src/student/model/spelled-answer.ts';

const run = (command: string, name = 'bash') =>
  ({ type: 'tool_call', id: '', name, input: { command } }) satisfies StudentBlock;
const spell = (command: string) => JSON.stringify(spellAnswer([run(command)], { sources: [] }));

describe('a command of a shell', () => {
  it.each([
    ['systemctl status nginx', 'systemctl status nginx --no-pager'],
    ['journalctl -u nginx -n 20', 'journalctl -u nginx --lines=20 --no-pager'],
    ['git log -5', 'git log -n 5 --no-color'],
    ['tail -20 a', '/usr/bin/tail -n 20 a | cat'],
    ["grep -c ' 500 ' /var/log/a", "grep ' 500 ' /var/log/a | wc -l"],
    ['cat a.txt', "cat 'a.txt' 2>/dev/null"],
    ['kill 12', 'kill -TERM 12'],
    ['truncate -s 0 /var/log/a', ': > /var/log/a'],
    ['truncate --size=0 /var/log/a', '> /var/log/a'],
  ])('has the same effect: %s, %s', (a, b) => {
    expect(spell(a)).toBe(spell(b));
  });

  it.each([
    ['kill 12', 'kill -9 12'],
    ['kill 12', 'kill 13'],
    ['kill 12', 'sudo kill 12'],
    ['systemctl start nginx', 'systemctl restart nginx'],
    ['cat a.txt', 'cat b.txt'],
    ['tail -n 20 a', 'tail -n 50 a'],
    ['git log', 'git log --oneline'],
    ['ls -t | head -1', 'ls | head -1'],
    ['du /a | sort -n | head', 'du /a | sort -rn | head'],
    ['ls', 'ls -a'],
    ['cat a', 'cat a | head'],
    ['grep -c x a', 'grep -v x a'],
    ['grep x a | wc -l', 'grep x a b | wc -l'],
    ['rm a', 'rm -f a'],
    ['cat a > b', 'cat a > c'],
    ['cat a > b', 'cat /dev/null > b'],
    ['head -n 5 a | tee b', 'head -n 6 a | tee c'],
    ['truncate -s 0 a', 'truncate -s 1 a'],
    ['ls a; rm b', 'ls a'],
    ['ls "$(rm b)"', 'ls'],
    ['tail -n 20 a && rm b', 'tail -n 30 a && rm b'],
    ['echo "x > a"', 'echo "x > b"'],
    ["grep 'a > /dev/null b' c", "grep 'a b' c"],
  ])('has another effect: %s, %s', (a, b) => {
    expect(spell(a)).not.toBe(spell(b));
  });

  it('only reads if all its programs only read', () => {
    const looks = ['df -h', 'cat a | sort | head', 'git diff a', 'sudo systemctl status x', 'ls 2>&1'];
    const changes = [
      ...['cat a | tee b', 'cat a > b', 'sort -o a b', 'git commit', 'systemctl restart x', 'ls; rm a'],
      ...[
        'find . -delete',
        'ls `rm a`',
        'ls &',
        'journalctl --vacuum-size=1',
        'cat "a',
        'ls\nrm a',
        'cat <(rm a)',
      ],
      ...['', '| cat', 'ls || rm a', 'A=1 ls', 'ls {a,b}', 'sed -i s/a/b/ c', 'sort -ro a b', 'ss -K'],
    ];
    expect(looks.filter((command) => !isLookCall(run(command)))).toEqual([]);
    expect(changes.filter((command) => isLookCall(run(command)))).toEqual([]);
    expect(isLookCall(run('ls', 'save_note'))).toBe(false);
  });

  it('is named by its program', () => {
    expect(nameOfUse(run('sudo /usr/bin/systemctl restart x'))).toBe('bash systemctl restart');
    expect(nameOfUse(run('ls; rm a'))).toBe('bash');
    const step = { stage: 'task', sources: [] };
    expect(namesOfForm([run('kill 12')], step).at(-1)).toBe('bash after task with command=kill');
    expect(namesOfForm([run('kill -9 12')], step).at(-1)).toBe('bash after task with command=kill');
  });

  it('is a different lookup with another program, or if it shows more', () => {
    const differ = (a: string, b: string) => differInLooks([run(a)], [run(b)]);
    expect(differ('du -sh /a', 'ls -l /a')).toEqual(['bash du', 'bash ls']);
    expect(differ('df', 'df /')).toEqual(['bash df']);
    expect(differ('cat a', 'cat b')).toBe(null);
    expect(differ('df', 'rm a')).toBe(null);
  });
});
