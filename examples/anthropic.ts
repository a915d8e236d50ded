import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import { understudyMiddleware } from '@understudy-gateway/anthropic';
import { Understudy } from '@understudy-gateway/client';
import { z } from 'zod';

const model = { model: 'claude-demo-large', max_tokens: 1024 };
const tool = { name: 'search', description: 'Searches.', inputSchema: z.object({ query: z.string() }) };
const tools = [betaZodTool({ ...tool, run: ({ query }) => `Nothing about ${query}.` })];
const { messages } = new Anthropic({ middleware: [understudyMiddleware()] }).beta;
const understudy = new Understudy();
const ask = { ...model, tools, messages: [{ role: 'user' as const, content: 'Where is Ada?' }] };
const run = { task: 'Find Ada', framework: 'claude-messages' };
console.log(await understudy.run(run, async () => (await messages.toolRunner(ask)).content));
await understudy.close();
