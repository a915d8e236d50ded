/**
 * A small agent that does the same kind of task again and again, its model (a script of the fake provider), and a
 * student that has learnt from its golden runs. For tests and benches of relegation.
 */

import type { Script, ScriptedAnswer } from '../src/demo/script.ts';
import { readNormalMessages } from '../src/providers/messages/request.ts';
import { NormalReading, pairCalls } from '../src/providers/normal-reading.ts';
import { createPrng, type Prng } from '../src/std/prng.ts';
import { publishStudent } from '../src/student/directory.ts';
import { digestAnswer } from '../src/student/model/answer.ts';
import type { LearnedStep } from '../src/student/model/learned-step.ts';
import type { StudentManifestDraft } from '../src/student/model/manifest.ts';
import { digestStep } from '../src/student/model/step.ts';
import { plainExtras } from '../src/student/model/step-extras.ts';
import type { StudentModel } from '../src/student/model/student-model.ts';
import { fitStudent } from '../src/teaching/student-fit.ts';
import { makeDraft } from './made-manifest.ts';

const MODEL = 'claude-demo-large';

const tool = (name: string, description: string, field: string) => ({
  name,
  description,
  input_schema: {
    type: 'object' as const,
    properties: { [field]: { type: 'string', maxLength: 40 } },
    required: [field],
    additionalProperties: false,
  },
});

export const TOOLS = [
  tool('get_order', 'Reads an order', 'order_id'),
  tool('track_parcel', 'Says where a parcel is', 'parcel_id'),
  tool('check_stock', 'Says how many of an article there are', 'sku'),
  tool('get_customer', 'Reads a customer', 'customer_id'),
];

type Block =
  | { type: 'text'; text: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown }
  | { type: 'tool_result'; tool_use_id: string; content: string };

export interface Message {
  role: 'user' | 'assistant';
  content: string | Block[];
}

/** The data of one order, from which the tools' results are made. */
export interface Order {
  order_id: string;
  status: 'shipped' | 'open';
  parcel_id: string;
  sku: string;
  customer_id: string;
  city: string;
  stock: number;
  name: string;
}

const CITIES = ['Lisbon', 'Oslo', 'Turin', 'Graz', 'Porto', 'Lyon', 'Ghent', 'Basel'];
const NAMES = ['Ada', 'Grace', 'Edsger', 'Barbara', 'Donald', 'Frances', 'Alan', 'Radia'];

export function makeOrder(prng: Prng, status: Order['status']): Order {
  const digits = (count: number) => String(10 ** (count - 1) + prng.below(9 * 10 ** (count - 1)));
  return {
    order_id: `ORD-${digits(6)}`,
    status,
    parcel_id: `PX${digits(8)}`,
    sku: `SKU-${digits(5)}`,
    customer_id: `cus_${digits(7)}`,
    city: CITIES[prng.below(CITIES.length)]!,
    stock: prng.below(900),
    name: NAMES[prng.below(NAMES.length)]!,
  };
}

/** Returns the result of a tool. */
export function runTool(order: Order, name: string): string {
  switch (name) {
    case 'get_order': {
      const { order_id, status, parcel_id, sku, customer_id } = order;
      return JSON.stringify(
        status === 'shipped' ? { order_id, status, parcel_id } : { order_id, status, sku, customer_id },
      );
    }
    case 'track_parcel':
      return JSON.stringify({ parcel_id: order.parcel_id, city: order.city });
    case 'check_stock':
      return JSON.stringify({ sku: order.sku, stock: order.stock });
    default:
      return JSON.stringify({ customer_id: order.customer_id, name: order.name });
  }
}

/** Returns the model's answer to the task and the latest results. */
function decide(task: string, results: string[]): ScriptedAnswer {
  const usage = { input: 900, output: 40 };
  if (results.length === 0) {
    const order_id = /ORD-\d+/.exec(task)?.[0];
    if (order_id === undefined) return { text: `About ${task} I know nothing.`, usage };
    return { tool_calls: [{ name: 'get_order', input: { order_id } }], usage };
  }
  const said = Object.assign({}, ...results.map((text) => JSON.parse(text) as object)) as Partial<Order>;
  if (said.status === 'shipped')
    return { tool_calls: [{ name: 'track_parcel', input: { parcel_id: said.parcel_id } }], usage };
  if (said.status === 'open') {
    return {
      text: 'I look at the stock and at the customer.',
      tool_calls: [
        { name: 'check_stock', input: { sku: said.sku } },
        { name: 'get_customer', input: { customer_id: said.customer_id } },
      ],
      usage,
    };
  }
  if (said.city !== undefined)
    return { text: `The parcel ${said.parcel_id} was last seen in ${said.city}.`, usage };
  return { text: `${said.name} waits for ${said.sku}, of which there are ${said.stock}.`, usage };
}

/** The agent's model, from which the student learns. */
export const orderScript: Script = ({ text, tool_results }) => decide(text, tool_results);

/** One run of the agent: its requests, and its reactions to the answers. */
export class OrderRun {
  readonly order: Order;
  readonly messages: Message[];
  readonly #stream: boolean;
  readonly #system: string;

  /** @param prompt text that is appended to the system prompt */
  constructor(
    order: Order,
    stream = false,
    task = `What is the state of order ${order.order_id}, please?`,
    prompt = '',
  ) {
    this.order = order;
    this.#stream = stream;
    this.#system = `You answer questions about orders. Use the tools; never guess.${prompt}`;
    this.messages = [{ role: 'user', content: task }];
  }

  /** Makes the next request. */
  body(): Record<string, unknown> & { messages: Message[] } {
    return {
      model: MODEL,
      max_tokens: 1_000,
      system: this.#system,
      tools: TOOLS,
      messages: structuredClone(this.messages),
      ...(this.#stream ? { stream: true } : {}),
    };
  }

  /** Handles the content of an answer. @returns whether the run has ended */
  take(content: readonly Block[]): boolean {
    this.messages.push({ role: 'assistant', content: [...content] });
    const results = content.flatMap((block): Block[] =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result', tool_use_id: block.id, content: runTool(this.order, block.name) }]
        : [],
    );
    if (results.length === 0) return true;
    this.messages.push({ role: 'user', content: results });
    return false;
  }
}

/** Makes the golden steps of this many runs. */
export function makeGoldenSteps(runs: number, seed = 7, prompt = ''): LearnedStep[] {
  const prng = createPrng(seed);
  const steps: LearnedStep[] = [];
  for (let at = 0; at < runs; at++) {
    const order = makeOrder(prng, at % 2 === 0 ? 'shipped' : 'open');
    const run = new OrderRun(order, false, undefined, prompt);
    for (let isOver = false, turn = 0; !isOver; turn++) {
      const body = run.body();
      const request = readNormalMessages(body, new NormalReading());
      pairCalls(request.messages, []);
      const content = answerBlocks(run, `toolu_${at}_${turn}`);
      const answer = digestAnswer({
        id: null,
        model: MODEL,
        content: readNormalMessages({ messages: [{ role: 'assistant', content }] }, new NormalReading())
          .messages[0]!.content,
        stop_reason: content.some(({ type }) => type === 'tool_use') ? 'tool_use' : 'end_turn',
        usage: {
          input_tokens: 900,
          output_tokens: 40,
          cache_read_tokens: 0,
          cache_write_tokens: 0,
          cache_write_1h_tokens: null,
        },
        error: null,
      });
      steps.push({
        run_id: `golden-${at}`,
        step: digestStep(request, plainExtras()),
        answer: answer!,
      });
      isOver = run.take(content);
    }
  }
  return steps;
}

function answerBlocks(run: OrderRun, id: string): Block[] {
  const last = run.messages.at(-1)!;
  const results = Array.isArray(last.content)
    ? last.content.flatMap((block) => (block.type === 'tool_result' ? [block.content] : []))
    : [];
  const task = run.messages[0]!.content as string;
  const { text, tool_calls: calls = [] } = decide(task, results);
  return [
    ...(text === undefined ? [] : [{ type: 'text' as const, text }]),
    ...calls.map((call, at) => ({ type: 'tool_use' as const, id: `${id}_${at}`, ...call })),
  ];
}

let fitted: StudentModel | null = null;

/** Returns a student of 40 golden runs of the agent, the same at each call. */
export function fitOrderStudent(): StudentModel {
  fitted ??= fitStudent(makeGoldenSteps(40));
  return fitted;
}

/** Publishes a student of the agent, with the manifest of `makeDraft` except for the coverage and `over`. */
export async function publishOrderStudent(
  directory: string,
  over: Partial<StudentManifestDraft> = {},
  model: StudentModel = fitOrderStudent(),
): Promise<void> {
  const coverage = { threshold: 0.5, target_error: 0.05, method: 'by hand' };
  await publishStudent(directory, makeDraft({ coverage, ...over }), model);
}
