import { Agent, Runner, tool } from '@openai/agents';
import { Understudy } from '@understudy-gateway/client';
import { watchRunner } from '@understudy-gateway/openai-agents';
import { z } from 'zod';

const parameters = z.object({ query: z.string() });
const execute = ({ query }: z.infer<typeof parameters>) => `Nothing about ${query}.`;
const search = tool({ name: 'search', description: 'Searches.', parameters, execute });
const agent = new Agent({ name: 'Finder', model: 'gpt-demo-large', tools: [search] });
const runner = watchRunner(new Runner());
const understudy = new Understudy();
const run = { task: 'Find Ada', framework: 'openai-agents' };
console.log(await understudy.run(run, async () => (await runner.run(agent, 'Where is Ada?')).finalOutput));
await understudy.close();
