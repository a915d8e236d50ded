/**
 * Digests and scores of made-up runs, byte for byte: a faster implementation must not change a step's results. After an
 * intended change of a rule, update the sums.
 */
import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { digestStep } from '../../../src/domain/monitors/digest.ts';
import { type MonitorStep, maskStep } from '../../../src/domain/monitors/masked-step.ts';
import { advanceMonitors, initialMonitors } from '../../../src/domain/monitors/monitors.ts';
import { BUILT_IN_PROFILES } from '../../../src/domain/monitors/profiles.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';

const RUNS = 60;
const STEPS = 40;

const ACTIONS = [
  'bash',
  'edit_file',
  'read_file',
  'search',
  'respond',
  'finish',
  'run_tests',
  'cancel_order',
  'summarize',
  'wait',
  'getOrderDetails',
  '',
  ' Shell ',
  'überprüfen',
];
const PHRASES = [
  'The tests now pass, everything is fixed.',
  'I should check whether it works?',
  'not found',
  'No results were found.',
  'Error: cannot open file',
  'Traceback (most recent call last):\n  File "a.py", line 3',
  'exit code 1',
  'exit code 0',
  '3 tests failed',
  'make[1]: *** [all] Error 2',
  'command not found',
  'still running',
  '{"status": "pending"}',
  '42%',
  'page 1 of 7',
  'showing the first 20 of',
  'continuing from the summary',
  'To summarize the work so far',
  'try again with another query instead',
  'the downloaded report',
  'verify that the booking is confirmed',
  'Permission denied',
  'HTTP error 404',
  'src/app/main.ts:17:3',
  'at 12:30:05, took 31 ms',
  '0xdeadbeef',
  'naïve café',
  '数据库连接失败',
  '👩‍💻 done',
  'sk-ant-abcdefghij0123456789',
  '| a | b |',
  '"Ann Lee", "Bob Ray", "Cy Doe", and "Di Fox"',
  'const total = items.reduce((sum, item) => sum + item.price, 0);',
  'git commit -m "wip"',
  "sed -i 's/a/b/' x.ts",
  'npm test',
  'grep -rn error logs',
  'SELECT id FROM orders WHERE id = 7',
  '\u0000\ud800 lone',
  '   ',
  '\t\r\n',
];

function makeText(prng: Prng, most: number): string {
  let text = '';
  for (let left = prng.below(most + 1); left > 0; left--) {
    const phrase = PHRASES[prng.below(PHRASES.length)]!;
    text += `${prng.below(6) === 0 ? phrase.toUpperCase() : phrase}${[' ', '\n', '. ', ''][prng.below(4)]}`;
  }
  return prng.below(40) === 0 ? text.repeat(200) : text;
}

function makeStep(prng: Prng, step_index: number, before: MonitorStep | null): MonitorStep {
  if (before !== null && prng.below(4) === 0) return { ...before, step_index };
  const phrase = makeText(prng, 3);
  const input =
    prng.below(2) === 0 ? phrase : JSON.stringify({ query: phrase, at: prng.below(9), list: [phrase, true] });
  return {
    step_index,
    action: ACTIONS[prng.below(ACTIONS.length)]!,
    action_input: input,
    thought: makeText(prng, 4),
    observation: makeText(prng, 12),
    is_error: prng.below(8) === 0,
    tokens: prng.below(1000),
  };
}

it('digests, memories and scores are the recorded ones', () => {
  const digests = createHash('sha256');
  const outcomes = createHash('sha256');
  const memories = createHash('sha256');
  const profiles = Object.values(BUILT_IN_PROFILES);
  for (let run = 0; run < RUNS; run++) {
    const prng = createPrng(run);
    let { memory } = initialMonitors(makeText(prng, 6));
    let before: MonitorStep | null = null;
    for (let at = 0; at < STEPS; at++) {
      const step = makeStep(prng, at, before);
      const { features, ...texts } = digestStep(maskStep(step));
      digests.update(features).update(JSON.stringify(texts));
      const given = Uint8Array.from(memory);
      const advanced = advanceMonitors({ memory }, { ...texts, features }, profiles[run % profiles.length]!);
      // The state before the step is not modified.
      expect(Buffer.compare(memory, given)).toBe(0);
      memory = advanced.state.memory;
      outcomes.update(JSON.stringify(advanced.outcome));
      memories.update(memory);
      before = step;
    }
  }
  expect({
    digests: digests.digest('hex'),
    outcomes: outcomes.digest('hex'),
    memories: memories.digest('hex'),
  }).toEqual({
    digests: '795803fd6b7c6b39b17e0b4b87b1e430bb1bf2cff4e94ff9dd3fdd16ef1fc66e',
    outcomes: '2ef9c54f322fae60c68c32d14af4a9a83208e22d16f651d01b08b5c6f254c0ff',
    memories: '22bf865c433da220921a6c30a5c37836e912e32e5b598f7b1c9673f79820fb0e',
  });
});
