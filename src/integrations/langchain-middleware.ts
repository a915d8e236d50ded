/**
 * `@understudy-gateway/langchain/middleware`: adds interventions for agents of langchain 1's `createAgent`.
 * Any thread.
 *
 * The middleware wraps only model calls. With a `wrapToolCall`, LangChain would end the agent at a tool's error instead
 * of passing the error to the model.
 */
import * as langchain from 'langchain';
import { addText, INTEGRATION } from './langchain.ts';
import { requirePeer } from './peer-version.ts';
import { stepsAround, type WatchOptions } from './watched-run.ts';

requirePeer(INTEGRATION, 'langchain', '>=1.0.1 <2');

/**
 * Adds an intervention to the system prompt of the next model call, and only of that call: `createAgent({ model, tools,
 * middleware: [understudyMiddleware()] })`. An error of the model reaches the caller of the agent as the same object.
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
        // In versions before 1.1, the system prompt is a text.
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
 * Keeps LangChain from changing an error that leaves a middleware. From 1.2.10 on, LangChain replaces the error by its
 * own class, unless `is_bubble_up` says that LangGraph must pass the error through. LangChain reads this property once,
 * directly after the middleware has thrown. This read returns true, and later reads return the original value. Versions
 * before 1.2.10 write a new message into the error instead. The first write of the message is ignored.
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
 * Replaces a property of an error for one reading or writing.
 * @param own the original property, which is restored after one reading or writing; undefined: none exists, and the
 *   property is removed after one reading
 * @param answer the value that a reading returns
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
  // Other versions may not read the property, so it is also restored here.
  setImmediate(restore);
}
