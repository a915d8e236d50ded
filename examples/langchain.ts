import { Understudy } from '@understudy-gateway/client';
import { UnderstudyHandler } from '@understudy-gateway/langchain';
import { understudyMiddleware } from '@understudy-gateway/langchain/middleware';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';

const schema = z.object({ query: z.string() });
const tools = [tool(({ query }) => `Nothing about ${query}.`, { name: 'search', schema })];
const agent = createAgent({ model: 'openai:gpt-demo-large', tools, middleware: [understudyMiddleware()] });
const understudy = new Understudy();
const { messages } = await understudy.run({ task: 'Find Ada', framework: 'langchain' }, () =>
  agent.invoke({ messages: 'Where is Ada?' }, { callbacks: [new UnderstudyHandler()] }),
);
console.log(messages.at(-1)?.text);
await understudy.close();
