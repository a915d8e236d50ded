/**
 * The agent of docs/tutorial.md: answers a shop's tickets, four at a time, each as a separate run.
 * `node examples/tutorial/agent.mjs FIRST LAST`; ANTHROPIC_BASE_URL says where the gateway is, MODEL which model answers.
 */
import Anthropic from '@anthropic-ai/sdk';
// In a project of your own: import { install, runScope } from '@understudy-gateway/client/label';
import { install, runScope } from '../../src/label/label.ts';

install();
const client = new Anthropic({ apiKey: process.env.ANTHROPIC_API_KEY ?? 'no-key-needed' });
const model = process.env.MODEL ?? 'claude-haiku-4-5';
const system = `You answer a shop's tickets. Read the order first. Track the parcel of an order that was shipped; check
the stock of one that is open. Then answer in one sentence, with the parcel or the article and what the tool said of it.`;

const tool = (name: string, description: string, field: string): Anthropic.Tool => ({
  name,
  description,
  input_schema: { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] },
});
const tools = [
  tool('get_order', 'Reads an order', 'order_id'),
  tool('track_parcel', 'Says where a parcel is', 'parcel_id'),
  tool('check_stock', 'Says how many of an article there are', 'sku'),
];

/** The shop. A ticket always has the same order. */
function runTool(name: string, ticket: number): string {
  const number = (factor: number) => 10_000 + ((ticket * factor) % 89_989);
  const [parcel_id, sku] = [`PX${number(7_919)}`, `SKU-${number(104_729)}`];
  if (name === 'track_parcel') {
    const city = ['Lisbon', 'Oslo', 'Turin', 'Graz', 'Porto', 'Lyon'][ticket % 6];
    return JSON.stringify({ parcel_id, city });
  }
  if (name === 'check_stock') return JSON.stringify({ sku, stock: number(31) % 900 });
  const order_id = `ORD-${number(611_953)}`;
  return JSON.stringify(
    ticket % 2 === 0 ? { order_id, status: 'shipped', parcel_id } : { order_id, status: 'open', sku },
  );
}

/** Works on one ticket until the model has nothing left to do. */
async function answerTicket(ticket: number): Promise<string> {
  const { order_id } = JSON.parse(runTool('get_order', ticket)) as { order_id: string };
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: `Where is my order ${order_id}?` }];
  let byStudent = 0;
  for (let calls = 1; ; calls += 1) {
    const ask = client.messages.create({ model, max_tokens: 500, system, tools, messages });
    const { data: message, response } = await ask.withResponse();
    if (response.headers.get('x-svc-served-by') === 'student') byStudent += 1;
    const uses = message.content.filter((block) => block.type === 'tool_use');
    if (uses.length === 0) {
      const said = message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('');
      return `ticket-${ticket}: ${calls} calls, ${byStudent} by the student. ${said}`;
    }
    messages.push({ role: 'assistant', content: message.content });
    messages.push({
      role: 'user',
      content: uses.map(({ id, name }) => ({
        type: 'tool_result' as const,
        tool_use_id: id,
        content: runTool(name, ticket),
      })),
    });
  }
}

const [first = 1, last = 60] = process.argv.slice(2).map(Number);
let next = first;
async function work(): Promise<void> {
  while (next <= last) {
    const ticket = next++;
    console.log(await runScope(`ticket-${ticket}`, () => answerTicket(ticket)));
  }
}
await Promise.all([work(), work(), work(), work()]);
