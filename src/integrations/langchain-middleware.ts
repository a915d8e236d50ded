/**
 * `@understudy-gateway/langchain/middleware`: brings interventions to agents of `createAgent`, which langchain 1 has. Any thread.
 *
 * The middleware wraps model calls alone. With a `wrapToolCall`, whatever it does, LangChain no longer hands a tool's error to
 * the model and ends the agent instead.
 */
import * as langchain from 'langchain';
import { addText, INTEGRATION } from './langchain.ts';
import { requirePeer } from './peer-version.ts';
import { stepsAround, type WatchOptions } from './watched-run.ts';

requirePeer(INTEGRATION, 'langchain', '>=1.0.1 <2');

/**
 * Adds what the run should be told to the system prompt of the next call of the model, of that call alone:
 * `createAgent({ model, tools, middleware: [understudyMiddleware()] })`. A model's error leaves the agent as the same object.
 */
export function understudyMiddleware(options: WatchOptions = {}): langchain.AgentMiddleware {
  return langchain.createMiddleware({
    name: 'understudy',
    wrapModelCall: async (request, handler) => {
      const steps = stepsAround(INTEGRATION, options);
      const said = steps?.takeIntervention() ?? null;
      try {
        if (said === null) return await handler(request);
        const { systemMessage, systemPrompt } = request;
        // Before 1.1 the system prompt is a text.
        if (systemMessage === undefined) {
          const told = [systemPrompt, said.text].filter(Boolean).join('\n\n');
          return await handler({ ...request, systemPrompt: told });
        }
        return await handler({ ...request, systemMessage: addText(systemMessage, said.text) });
      } catch (thrown) {
        if (said !== null) steps!.giveBack(said);
        keepObject(thrown);
        throw thrown;
      }
    },
  });
}

/**
 * LangChain changes an error that leaves a middleware. From 1.2.10 on it replaces the error by its own class, except for
 * errors that LangGraph passes through (`is_bubble_up`): it asks once, right after the middleware has thrown, and the answer is
 * yes for that one time. Before, it writes a new message into the error: the first write changes nothing.
 */
function keepObject(thrown: unknown): void {
  if (!(thrown instanceof Error) || !Object.isExtensible(thrown)) return;
  if ('MiddlewareError' in langchain) {
    if (!('is_bubble_up' in thrown)) answerOnce(thrown, 'is_bubble_up', undefined, true);
  } else {
    const own = Object.getOwnPropertyDescriptor(thrown, 'message');
    if (own?.configurable === true && own.writable === true) {
      answerOnce(thrown, 'message', own, own.value);
    }
  }
}

/**
 * @param own the property as it is, which is there again after the first reading or writing
 * @param answer what a reader gets
 */
function answerOnce(
  thrown: Error,
  name: 'is_bubble_up' | 'message',
  own: PropertyDescriptor | undefined,
  answer: unknown,
): void {
  const isAsked = own === undefined;
  const restore = () => {
    if (own === undefined) Reflect.deleteProperty(thrown, name);
    else Object.defineProperty(thrown, name, own);
  };
  Object.defineProperty(thrown, name, {
    configurable: true,
    enumerable: false,
    get: () => {
      if (isAsked) restore();
      return answer;
    },
    set: restore,
  });
  // Other versions may not ask.
  setImmediate(restore);
}
