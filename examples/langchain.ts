import { createAgent, tool } from 'langchain';
import { Understudy } from 'understudy/client';
import { UnderstudyHandler, understudyMiddleware } from 'understudy/langchain';
import { z } from 'zod';

const schema = z.object({ query: z.string() });
const search = tool(({ query }) => `Nothing about ${query}.`, { name: 'search', schema });
const middleware = [understudyMiddleware()];
const agent = createAgent({ model: 'openai:gpt-demo-large', tools: [search], middleware });
const understudy = new Understudy();
const { messages } = await understudy.run({ task: 'Find Ada', framework: 'langchain' }, () =>
  agent.invoke({ messages: 'Where is Ada?' }, { callbacks: [new UnderstudyHandler()] }),
);
console.log(messages.at(-1)?.text);
await understudy.close();
