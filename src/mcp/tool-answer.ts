/**
 * Common parts of tools: calls of the API, and the conversion of its answers to tool results. A failure tells
 * the model what to do. Any thread.
 */
import type { CallToolResult, ToolAnnotations } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Endpoint } from '../contract/endpoint.ts';

/** An answer of the API. */
export interface ApiAnswer {
  status: number;
  /** The parsed JSON; undefined if the body is not JSON. */
  body: unknown;
  /** Seconds to wait before the next attempt, if the API says so. */
  retry_after_s: number | null;
}

/**
 * Calls an endpoint of the API.
 * @param input the body, or the query of a GET or DELETE
 * @throws UnreachableApi when there is no answer
 */
export type CallApi = (
  endpoint: Endpoint,
  params: Readonly<Record<string, string>>,
  input: Readonly<Record<string, unknown>>,
) => Promise<ApiAnswer>;

/** The API did not answer. The message names the address and the cause. */
export class UnreachableApi extends Error {
  override readonly name = 'UnreachableApi';
}

/** A tool as the protocol's library registers it. */
export interface Tool {
  name: string;
  title: string;
  description: string;
  annotations: ToolAnnotations;
  inputSchema: z.ZodObject;
  outputSchema: z.ZodObject;
  /** Calls the tool. A failed call of the API is a result; the function rejects only for a fault of this program. */
  run(input: never): Promise<CallToolResult>;
}

/**
 * Calls the API and converts its answer to the result of a tool in the protocol.
 * @param output the form that a successful answer must have
 */
export async function answer(output: z.ZodObject, ask: () => Promise<ApiAnswer>): Promise<CallToolResult> {
  let got: ApiAnswer;
  try {
    got = await ask();
  } catch (thrown) {
    if (thrown instanceof UnreachableApi) return fail(`${thrown.message}. ${GO_ON}`);
    throw thrown;
  }
  if (got.status !== 200) return fail(describeRefusal(got));
  const read = output.safeParse(got.body);
  if (!read.success) return fail(`The answer is not from the API of Understudy: check the address. ${GO_ON}`);
  // The text repeats the structured content for clients that show the model only texts.
  return { content: [{ type: 'text', text: JSON.stringify(read.data) }], structuredContent: read.data };
}

function fail(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true };
}

const GO_ON = 'Go on without it.';

/** Writes instructions for the model after a failed call. */
function describeRefusal({ status, body, retry_after_s }: ApiAnswer): string {
  const words = readDetail(body) ?? `HTTP ${status}`;
  switch (status) {
    case 401:
      return `${words}: the API key is missing, wrong or revoked; the user has to set another one. ${GO_ON}`;
    case 403:
      return `${words}: this credential may not do that; the user has to set a key that may. ${GO_ON}`;
    case 404:
      return `${words}: the address, org_id or project_id that the user has set leads nowhere. ${GO_ON}`;
    case 409:
      return `${words}: a person has to delete some first. ${GO_ON}`;
    case 413:
    case 422:
      return `Not accepted: ${words}. Correct the arguments and call again.`;
    case 429:
      return `${words}: wait ${retry_after_s ?? 1} s, then call again, or go on without it.`;
    default:
      return `Understudy cannot answer now (${words}). Go on without it; it may answer later.`;
  }
}

const textDetail = z.object({ detail: z.string() });
const violations = z.object({
  detail: z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string() })),
});

/** Reads the error text of an answer; null for an answer that is not from the API, for example from a proxy in between. */
function readDetail(body: unknown): string | null {
  const text = textDetail.safeParse(body);
  if (text.success) return text.data.detail;
  const list = violations.safeParse(body);
  if (!list.success) return null;
  return list.data.detail.map(({ loc, msg }) => `${loc.slice(1).join('.')}: ${msg}`).join('; ');
}
