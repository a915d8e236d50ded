/**
 * Requests of Bedrock's InvokeModel in normal form. The bodies have the form of the model's maker, which `bodies.ts`
 * recognises; the maker's reader reads them. Pure; runs where stored copies are read, never on a server thread.
 */

import { readBedrockModel, readNormalConverse } from '../bedrock-converse/request.ts';
import { readNormalChat } from '../chat-completions/request.ts';
import { asObject } from '../json-reading.ts';
import { readNormalMessages } from '../messages/request.ts';
import { emptyRequest, type NormalReading, textBlocks } from '../normal-reading.ts';
import { plainRequest, type WireRequest } from '../wire.ts';
import { readTextRequest, tellInvokeBody } from './bodies.ts';

/** Reads the body of an InvokeModel request, in the form of the model's maker. */
export function readInvokeRequest(value: unknown, reading: NormalReading, path: string): WireRequest {
  const body = asObject(value);
  const model = readBedrockModel(path);
  const kind = tellInvokeBody(body, path);
  switch (kind) {
    case 'messages':
      return plainRequest({ ...readNormalMessages(body, reading), model });
    case 'chat_completions':
      return plainRequest({ ...readNormalChat(body, reading), model });
    case 'converse':
      return plainRequest(readNormalConverse(body, reading, path));
    case 'text':
    case 'embedding': {
      const { prompt, max_output_tokens } = readTextRequest(body);
      const normal = {
        ...emptyRequest(model),
        messages: prompt === null ? [] : [{ role: 'user' as const, content: textBlocks(prompt) }],
        max_output_tokens,
      };
      return { ...plainRequest(normal), embeds: kind === 'embedding' };
    }
  }
}
