/**
 * Calls of custom tools and of a local shell, as newer versions of Codex make them: what a student learns of them, and
 * how the official SDK reads an answer with such calls. Nothing is sent.
 */
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { NormalReading } from '../../../src/providers/normal-reading.ts';
import { WIRES as PROVIDER_WIRES } from '../../../src/providers/wires.ts';
import { ExactIndex } from '../../../src/search/exact-index.ts';
import { createPrng, type Prng } from '../../../src/std/prng.ts';
import { digestAnswer } from '../../../src/student/model/answer.ts';
import type { StudentAnswer, StudentBlock } from '../../../src/student/model/decision.ts';
import { Student } from '../../../src/student/model/student.ts';
import { isFitAnswer } from '../../../src/student/serving/answer-check.ts';
import { readStep, WIRES } from '../../../src/student/serving/step-reading.ts';
import { acceptsText, ToolSchemas } from '../../../src/student/serving/tool-schemas.ts';
import { fitStudent } from '../../../src/teaching/student-fit.ts';

const wire = WIRES.responses;
const LARK = { type: 'grammar', syntax: 'lark', definition: 'start: SOURCE\nSOURCE: /[\\s\\S]+/\n' };
const TOOLS = [
  {
    type: 'namespace',
    name: 'functions',
    description: '',
    tools: [
      { type: 'custom', name: 'exec', description: 'Run JavaScript code.', format: LARK },
      { type: 'function', name: 'wait', parameters: { type: 'object' } },
    ],
  },
  { type: 'namespace', name: 'clock', tools: [{ type: 'function', name: 'sleep' }] },
  { type: 'local_shell' },
];

/** A request as Codex 0.171.0 makes it for a newer model. */
function makeBody(folder: string, task: string, more: object[] = []): Record<string, unknown> {
  const message = (role: string, text: string) => ({
    type: 'message',
    role,
    content: [{ type: 'input_text', text }],
  });
  return {
    model: 'gpt-newer',
    stream: true,
    store: false,
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning: { effort: 'low', context: 'all_turns' },
    include: ['reasoning.encrypted_content'],
    text: { verbosity: 'low' },
    input: [
      { type: 'additional_tools', id: 'at_1', role: 'developer', tools: TOOLS },
      message('developer', 'You are an agent. You and the user share a workspace.'),
      message('user', `<environment_context>\n  <cwd>${folder}</cwd>\n</environment_context>`),
      message('user', task),
      ...more,
    ],
  };
}

function answerOf(...content: StudentBlock[]): StudentAnswer {
  const calls = content.some(({ type }) => type === 'tool_call');
  return { content, stop_reason: calls ? 'tool_use' : 'end_turn', input_tokens: 90, output_tokens: 20 };
}
const callOf = (name: string, input: unknown): StudentBlock => ({ type: 'tool_call', id: '', name, input });

describe('an answer that calls a custom tool and a local shell', () => {
  const code = `const r = await tools.exec_command({ cmd: "ls" });\ntext(r.output); // ${'… 🚀'.repeat(3_000)}`;
  const action = { type: 'exec', command: ['ls', '-1'], env: {}, working_directory: '/srv/app' };
  const content: StudentBlock[] = [
    { type: 'text', text: 'I look.' },
    callOf('exec', code),
    callOf('local_shell', action),
    callOf('wait', { ms: 5 }),
  ];
  const written = (stream: boolean) =>
    wire.writeAnswer(answerOf(...content), { ...makeBody('/srv/app', 'Look.'), stream });
  /** A client of the official SDK that gets the answer to each request. */
  const client = (stream: boolean): OpenAI =>
    new OpenAI({
      apiKey: 'key',
      maxRetries: 0,
      fetch: async () => {
        const type = stream ? 'text/event-stream' : 'application/json';
        return new Response(written(stream).body, { headers: { 'content-type': type } });
      },
    });
  const expected = [
    { type: 'message', content: [{ type: 'output_text', text: 'I look.' }] },
    { type: 'custom_tool_call', status: 'completed', name: 'exec', input: code },
    { type: 'local_shell_call', status: 'completed', action },
    { type: 'function_call', name: 'wait', arguments: '{"ms":5}' },
  ];

  it('is read by the official SDK, as one body', async () => {
    const response = await client(false).responses.create({ model: 'gpt-newer', input: 'Look.' });
    expect(response.output).toMatchObject(expected);
    expect(response.output_text).toBe('I look.');
  });

  it('is read by the official SDK, as a stream', async () => {
    const stream = client(true).responses.stream({ model: 'gpt-newer', input: 'Look.' });
    const text: string[] = [];
    const done: unknown[] = [];
    const numbers: number[] = [];
    for await (const event of stream) {
      numbers.push(event.sequence_number);
      if (event.type === 'response.custom_tool_call_input.delta') text.push(event.delta);
      if (event.type === 'response.custom_tool_call_input.done') expect(event.input).toBe(code);
      if (event.type === 'response.output_item.done') done.push(event.item);
    }
    expect(text.length).toBeGreaterThan(1);
    expect(text.join('')).toBe(code);
    expect(numbers).toEqual(numbers.map((_, at) => at));
    expect(done).toMatchObject(expected);
    expect((await stream.finalResponse()).output).toMatchObject(expected);
  });

  it('names the ids of all calls, and is read back as it was', () => {
    const { body, call_ids } = written(false);
    const reader = PROVIDER_WIRES.responses.startAnswer(new NormalReading(), '', []);
    reader.readWhole(JSON.parse(new TextDecoder().decode(body)));
    const read = reader.finish().content;
    expect(read).toMatchObject(
      content
        .map(({ type, ...rest }) => ({ ...rest, type, id: undefined }))
        .map(({ id: _id, ...rest }) => rest),
    );
    expect(read.flatMap((block) => (block.type === 'tool_call' ? [block.id] : []))).toEqual(call_ids);
    expect(new Set(call_ids).size).toBe(3);
  });
});

describe('an answer fits the request', () => {
  const fits = (name: string, input: unknown, tools: unknown[] = TOOLS): boolean => {
    const body = { ...makeBody('/srv/app', 'Look.'), input: 'Look.', tools };
    const { request } = readStep(wire, body, [])!;
    return isFitAnswer(answerOf(callOf(name, input)), request, { wire, body }, new ToolSchemas());
  };
  const action = { type: 'exec', command: ['ls'], env: { LANG: 'C' } };
  it.each([
    [true, 'exec', 'text(1);'],
    [false, 'exec', ''],
    [false, 'exec', { code: 'text(1);' }],
    [true, 'wait', { ms: 5 }],
    [false, 'wait', 'text(1);'],
    [false, 'sleep', { ms: 5 }],
    [true, 'local_shell', action],
    [false, 'local_shell', 'ls'],
    [false, 'local_shell', { ...action, command: 'ls' }],
    [false, 'local_shell', { ...action, env: { LANG: 5 } }],
  ])('%j with a call of %s with %j', (isFit, name, input) => {
    expect(fits(name, input)).toBe(isFit);
  });

  it('only if the text follows a grammar that can be checked', () => {
    const regex = (definition: string) => ({ type: 'grammar', syntax: 'regex', definition });
    expect(acceptsText(undefined, 'a')).toBe(true);
    expect(acceptsText({ type: 'text' }, 'a')).toBe(true);
    expect(acceptsText(LARK, 'a')).toBe(true);
    expect(acceptsText(regex('[a-c]+'), 'abc')).toBe(true);
    expect(acceptsText(regex('[a-c]+'), 'abcd')).toBe(false);
    expect(acceptsText(regex('a|b'), 'ab')).toBe(false);
    expect(acceptsText(regex('(a+)+'), 'aa')).toBe(false);
    expect(acceptsText(regex('['), 'a')).toBe(false);
    expect(acceptsText({ type: 'grammar', syntax: 'peg' }, 'a')).toBe(false);
    expect(acceptsText('text', 'a')).toBe(false);
    const tool = { type: 'custom', name: 'add', format: regex('\\d+ \\+ \\d+') };
    expect(fits('add', '1 + 2', [tool])).toBe(true);
    expect(fits('add', '1 - 2', [tool])).toBe(false);
  });
});

const WORDS = 'amber birch cedar delta ember fjord grove haven inlet jetty knoll larch maple'.split(' ');
const pick = (random: Prng): string => WORDS[random.below(WORDS.length)]!;

describe('a student learns', () => {
  const folder = (random: Prng) => `/home/ada/session-${random.below(9_000)}`;
  const forms = wire.callable(makeBody('', ''));
  const learn = (make: (random: Prng) => { body: Record<string, unknown>; input: string }) => {
    const steps = Array.from({ length: 40 }, (_, i) => {
      const { body, input } = make(createPrng(i + 1));
      const normal = {
        ...PROVIDER_WIRES.responses.startAnswer(new NormalReading(), '', []).finish(),
        content: [callOf('exec', input)],
        stop_reason: 'tool_use' as const,
        error: null,
      };
      const answer = digestAnswer({ ...normal, id: null, model: null }, forms)!;
      return { run_id: `run-${i}`, step: readStep(wire, body, [])!.step, answer };
    });
    const student = new Student(fitStudent(steps), (dimensions) => new ExactIndex(dimensions));
    return (body: Record<string, unknown>) =>
      student.propose(readStep(wire, body, [])!.step).answer?.content ?? null;
  };
  const code = (path: string): string =>
    `const r = await tools.exec_command({ cmd: "cat ${path}" });\ntext(r.output);`;
  const ask = (name: string): string => `Which port does the service ${name} listen on?`;

  it('the text of a custom tool, with values of the step', () => {
    const make = (random: Prng) => {
      const [place, name] = [folder(random), `${pick(random)}-${pick(random)}`];
      return { body: makeBody(place, ask(name)), input: code(`${place}/config/${name}.json`) };
    };
    const say = learn(make);
    for (let i = 0; i < 8; i++) {
      const { body, input } = make(createPrng(900 + i));
      expect(say(body)).toEqual([callOf('exec', input)]);
    }
  });

  it('no text in which a value of the step could begin a command', () => {
    const make = (random: Prng) => {
      const name = `${pick(random)}-${pick(random)}`;
      return { body: makeBody('/home/ada', `Read the file ${name}.`), input: code(`config/${name}.json`) };
    };
    const say = learn(make);
    expect(say(makeBody('/home/ada', 'Read the file birch-larch.'))).toEqual([
      callOf('exec', code('config/birch-larch.json')),
    ]);
    for (const name of ['birch;reboot', 'birch"larch', 'birch$(reboot)', 'birch`reboot`', 'birch\\larch'])
      expect(JSON.stringify(say(makeBody('/home/ada', `Read the file ${name}.`))) ?? '').not.toMatch(
        /reboot|birch"|birch\\/,
      );
  });

  it('no patch, because nothing in the step shows its text', () => {
    const make = (random: Prng) => {
      const lines = Array.from({ length: 3 }, () => `+${pick(random)} = ${random.below(9_000)}`);
      const input = `*** Begin Patch\n*** Update File: src/${pick(random)}.py\n${lines.join('\n')}\n*** End Patch`;
      return { body: makeBody('/home/ada', 'Mend the tests.'), input };
    };
    expect(learn(make)(make(createPrng(900)).body)).toBeNull();
  });
});
