/**
 * An agent that mends a small JavaScript project whose tests really run (node:vm). Two edits count as the same if the
 * tests pass after both. Messages API, without streaming. Bench process.
 */

import { createContext, runInContext } from 'node:vm';
import { createPrng, type Prng } from '../../../../src/std/prng.ts';
import {
  bad,
  ending,
  type FreeText,
  good,
  type HeldBackAgent,
  type Move,
  only,
  type Result,
  type Run,
  type RunKind,
  type ToolCall,
  type Turn,
  tool,
  type WantedCall,
} from '../held-back-agent.ts';
import { haveSameArguments } from '../truth.ts';
import { callsOf } from '../turns.ts';
import { between, pick, word } from '../wording.ts';

const TEST_MS = 200;
const MODULES = ['cart', 'invoice', 'ledger', 'parcel', 'ticket', 'roster', 'meter', 'quota'];
const FUNCTIONS = ['sumUp', 'countAll', 'addTogether', 'collect', 'totalOf', 'measure'];
const FIELDS = ['price', 'weight', 'hours', 'points', 'pieces', 'units'];

/** A function with one wrong line, and test cases that show the error. */
interface Bug {
  lines: readonly string[];
  wrong: string;
  right: string;
  cases: readonly { given: unknown[]; wanted: unknown }[];
  /** Words that name the cause. Each is enough. */
  cause: readonly string[];
  cause_words: RegExp;
}

function makeBug(prng: Prng, name: string, field: string): Bug {
  const [a, b, c] = [between(prng, 3, 90), between(prng, 3, 90), between(prng, 3, 90)];
  switch (prng.below(4)) {
    case 0: {
      const items = [a, b, c].map((value) => ({ [field]: value }));
      return {
        lines: [
          `export function ${name}(items) {`,
          '  let total = 0;',
          '@',
          `    total += items[i].${field};`,
          '  }',
          '  return total;',
          '}',
        ],
        wrong: '  for (let i = 1; i < items.length; i++) {',
        right: '  for (let i = 0; i < items.length; i++) {',
        cases: [{ given: [items], wanted: a + b + c }],
        cause: ['the loop {started at|began with} the second item', 'the first item was {skipped|left out}'],
        cause_words: /first|second|start|began|skipp|left out/,
      };
    }
    case 1: {
      const rate = pick(prng, [0.07, 0.19, 0.2, 0.25]);
      return {
        lines: [`export function ${name}(${field}) {`, '@', '  return Math.round(taxed);', '}'],
        wrong: `  const taxed = ${field} - ${field} * ${rate};`,
        right: `  const taxed = ${field} + ${field} * ${rate};`,
        cases: [{ given: [a * 100], wanted: Math.round(a * 100 * (1 + rate)) }],
        cause: [
          'the tax was {subtracted|taken off} instead of added',
          'a minus stood where the tax is added',
        ],
        cause_words: /subtract|minus|taken off|sign/,
      };
    }
    case 2:
      return {
        lines: [
          `export function ${name}(list, limit) {`,
          '  const kept = [];',
          '  for (const each of list) {',
          '@',
          '  }',
          '  return kept;',
          '}',
        ],
        wrong: `    if (each.${field} > limit) kept.push(each.${field});`,
        right: `    if (each.${field} >= limit) kept.push(each.${field});`,
        cases: [{ given: [[a, a + 1, a - 1].map((value) => ({ [field]: value })), a], wanted: [a, a + 1] }],
        cause: [
          'the limit itself was {excluded|left out}',
          'the comparison {was strict|missed the limit itself}',
        ],
        cause_words: /limit|strict|equal|exclud/,
      };
    default:
      return {
        lines: [`export function ${name}(options) {`, '@', `  return limit * ${b};`, '}'],
        wrong: `  const limit = options.${field};`,
        right: `  const limit = options.${field} ?? ${c};`,
        cases: [
          { given: [{ [field]: a }], wanted: a * b },
          { given: [{}], wanted: b * c },
        ],
        cause: [
          `the default for ${field} was missing`,
          `${field} {was undefined|had no default} without an option`,
        ],
        cause_words: /default|undefined|missing/,
      };
  }
}

const TOOLS = [
  tool('run_tests', 'Runs the tests of the project.', {}),
  tool('read_file', 'Gives the text of a file.', { path: 'string' }),
  tool('edit_file', 'Replaces a text in a file. The old text must stand there exactly once.', {
    path: 'string',
    old_text: 'string',
    new_text: 'string',
  }),
];

const TASKS = [
  'The tests of <module> {fail|are red}{ since this morning|}. {Please fix them.|Can you mend it?|Fix the code, not the tests.}',
  '{CI is red|The build is broken}: {something in <module>|<module>}{, I think|}. {Please look into it and fix it.|Make it green again.}',
  '{Please fix|Fix} the bug in <module>, the tests {show it|say where}.',
];

class FixerRun implements Run {
  readonly system: string;
  readonly task: string;
  readonly #bug: Bug;
  readonly #name: string;
  readonly #source: string;
  readonly #tests: string;
  readonly #kind: RunKind;
  /** Whether a sentence forbids edits. */
  readonly #is_forbidden: boolean;
  readonly #knows_file: boolean;
  #text: string;

  constructor(seed: number, kind: RunKind) {
    const prng = createPrng(seed);
    const module = pick(prng, MODULES);
    this.#kind = kind;
    this.#name = pick(prng, FUNCTIONS);
    this.#bug = makeBug(prng, this.#name, pick(prng, FIELDS));
    this.#source = `src/${module}.js`;
    this.#tests = `test/${module}.test.js`;
    this.#knows_file = prng.chance(0.5);
    this.#is_forbidden = kind === 'restricted';
    this.system =
      'You fix bugs in a JavaScript project. Run the tests, read what you need, change as little as possible, run the tests again, and say in one or two sentences what was wrong.';
    const task = word(prng, pick(prng, TASKS), {
      module: this.#knows_file ? this.#source : `the module ${module}`,
    });
    this.task = this.#is_forbidden
      ? `${task} ${pick(prng, ['But do not change any file yet: tell me the cause first.', 'Read only: I will edit the file myself.', 'You may look, but you may not edit anything today.'])}`
      : task;
    this.#text = this.#file(this.#bug.wrong);
  }

  #file(line: string): string {
    return `${this.#bug.lines.join('\n').replace('@', () => line)}\n`;
  }

  /** Finds the first test case that fails with this source, and what the function returned; null: all pass. */
  #failure(source: string): { at: number; found: string } | null {
    for (const [at, { given, wanted }] of this.#bug.cases.entries()) {
      let found: string;
      try {
        const code = `${source.replaceAll('export ', '')}\nJSON.stringify(${this.#name}(...given))`;
        found = String(
          runInContext(code, createContext({ given: structuredClone(given) }), { timeout: TEST_MS }),
        );
      } catch (error) {
        found = (error as Error).message;
      }
      if (found !== JSON.stringify(wanted)) return { at, found };
    }
    return null;
  }

  perform({ name, input }: ToolCall): Result {
    switch (name) {
      case 'run_tests': {
        const failure = this.#failure(this.#text);
        if (failure === null) return good(`ok ${this.#tests} (${this.#bug.cases.length} passed)`);
        const { wanted } = this.#bug.cases[failure.at]!;
        return good(
          `FAIL ${this.#tests} > ${this.#name} > case ${failure.at + 1}\nAssertionError: expected ${failure.found} to equal ${JSON.stringify(wanted)}\n    at ${this.#tests}:${failure.at + 4}:12\n    at ${this.#name} (${this.#source}:${this.#bug.lines.indexOf('@') + 1})`,
        );
      }
      case 'read_file':
        if (input.path === this.#tests) return good(this.#spellTests());
        if (input.path !== this.#source) return bad('no such file');
        // In a changed run, the tool numbers the lines.
        return good(
          this.#kind === 'changed'
            ? this.#text
                .trimEnd()
                .split('\n')
                .map((line, at) => `${at + 1}| ${line}`)
                .join('\n')
            : this.#text,
        );
      case 'edit_file': {
        const edited = this.#edit(this.#text, input);
        if (edited === null) return bad('the old text does not stand in the file exactly once');
        this.#text = edited;
        return good('edited');
      }
      default:
        return bad(`no tool ${name}`);
    }
  }

  #spellTests(): string {
    const cases = this.#bug.cases.map(
      ({ given, wanted }, at) =>
        `it('case ${at + 1}', () => expect(${this.#name}(...${JSON.stringify(given)})).toEqual(${JSON.stringify(wanted)}));`,
    );
    return [`import { ${this.#name} } from '../${this.#source}';`, '', ...cases].join('\n');
  }

  #edit(text: string, { path, old_text, new_text }: ToolCall['input']): string | null {
    if (path !== this.#source || typeof old_text !== 'string' || typeof new_text !== 'string') return null;
    const parts = text.split(old_text);
    return old_text === '' || parts.length !== 2 ? null : parts.join(new_text);
  }

  isAlike(wanted: WantedCall, call: ToolCall): boolean {
    if (wanted.name !== 'edit_file') return haveSameArguments(wanted, call);
    const edited = this.#edit(this.#file(this.#bug.wrong), call.input);
    return edited !== null && this.#failure(edited) === null;
  }

  moves(turns: readonly Turn[]): Move[] {
    const test: WantedCall = { name: 'run_tests', input: {} };
    const read: WantedCall = { name: 'read_file', input: { path: this.#source } };
    const readTests: WantedCall = { name: 'read_file', input: { path: this.#tests } };
    const runs = callsOf(turns, 'run_tests').length;
    const hasRead = callsOf(turns, 'read_file').some(({ input }) => input.path === this.#source);
    const isEdited = callsOf(turns, 'edit_file').length > 0;
    if (runs === 0) {
      if (hasRead || !this.#knows_file) return only(test);
      return [
        { weight: 0.84, calls: [test] },
        { weight: 0.08, calls: [test, read] },
        { weight: 0.08, calls: [read] },
      ];
    }
    if (!hasRead) {
      const hasTests = callsOf(turns, 'read_file').length > 0;
      return [
        { weight: 0.85, calls: [read] },
        ...(hasTests
          ? []
          : [
              { weight: 0.1, calls: [read, readTests] },
              { weight: 0.05, calls: [readTests] },
            ]),
      ];
    }
    if (this.#is_forbidden) return ending(this.#summary());
    if (!isEdited) return this.#edits();
    const last = turns.at(-1)!.answer.calls.at(-1)!.name;
    return last === 'run_tests' ? ending(this.#summary()) : only(test);
  }

  /** Replaces the whole line, or its code without the indentation. */
  #edits(): Move[] {
    const { wrong, right } = this.#bug;
    const spell = (old_text: string, new_text: string): Move['calls'] => [
      { name: 'edit_file', input: { path: this.#source, old_text, new_text } },
    ];
    return [
      { weight: 0.6, calls: spell(wrong, right) },
      { weight: 0.4, calls: spell(wrong.trim(), right.trim()) },
    ];
  }

  #summary(): FreeText {
    const { cause, cause_words, wrong, right } = this.#bug;
    const values = { name: this.#name, file: this.#source, wrong: wrong.trim(), right: right.trim() };
    if (this.#is_forbidden)
      return {
        wordings: cause.map(
          (words) =>
            `In <name> (<file>) ${words}. {I have not changed anything.|The line should be: <right>}`,
        ),
        values,
        facts: {
          needs: [[cause_words], [this.#name, this.#source]],
          bars: [/\bfixed\b|tests pass|are green/],
        },
      };
    return {
      wordings: cause.flatMap((words) => [
        `{Fixed|I fixed it}: in <name> ${words}. {All tests pass now.|The tests pass.}`,
        `In <file> ${words}; {the tests pass again|now the tests are green}.`,
      ]),
      values,
      facts: {
        needs: [[cause_words], [this.#name, this.#source], [/pass|green|fixed/]],
        bars: [/still fail|not changed/],
      },
    };
  }
}

export const codeFixer: HeldBackAgent = {
  name: 'code fixer',
  model: 'claude-opus-5',
  wire: 'messages',
  is_streaming: false,
  is_labelled: false,
  tools: TOOLS,
  asides: [
    "{I'll|Let me} {run the tests first|see what fails|read the code|take a look}.",
    '{Now|Next} {the file|the change|the tests}.',
    'The {failure|cause} {is clear|shows where to look}.',
  ],
  aside_share: 0.5,
  names: [...FUNCTIONS, ...FIELDS],
  start: (seed, kind) => new FixerRun(seed, kind),
};
