/**
 * Sends one message of an alert to a webhook, in Slack's format or as signed JSON. It follows no redirects,
 * and reads only the status of the answer. Server threads.
 */
import { createHmac } from 'node:crypto';
import { request as requestPlain } from 'node:http';
import { request as requestTls } from 'node:https';
import type { AlertDestination, AlertNews } from '../domain/alert.ts';
import { type AlertTargets, TargetError } from './alert-targets.ts';

export interface Message {
  delivery_id: string;
  news: AlertNews;
  /** Time of the attempt, in milliseconds since the epoch. */
  sent_ms: number;
}

/** Thrown when an attempt failed. The message contains no secret. */
export class SendError extends Error {
  override readonly name = 'SendError';
}

/** Posts a message once. @throws SendError if the answer's status is not 2xx, or no answer arrives */
export async function sendWebhook(
  destination: AlertDestination,
  message: Message,
  targets: AlertTargets,
  signal: AbortSignal,
): Promise<void> {
  const url = new URL(destination.url);
  const { body, headers } = writeRequest(destination, message);
  const status = await post(url, body, headers, targets, signal).catch((thrown: unknown) => {
    throw new SendError(describeFailure(thrown, signal));
  });
  if (status >= 200 && status < 300) return;
  const isRedirect = status >= 300 && status < 400;
  throw new SendError(`it answered ${status}${isRedirect ? '; redirects are not followed' : ''}`);
}

function writeRequest(
  { kind, secret }: AlertDestination,
  { delivery_id, news, sent_ms }: Message,
): { body: string; headers: Record<string, string> } {
  const always = { 'content-type': 'application/json', 'x-understudy-delivery': delivery_id };
  if (kind === 'slack') return { body: JSON.stringify({ text: escapeForSlack(news.text) }), headers: always };
  const body = JSON.stringify({ delivery_id, ...news });
  const timestamp = String(Math.floor(sent_ms / 1_000));
  const signature = createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex');
  return {
    body,
    headers: {
      ...always,
      'x-understudy-timestamp': timestamp,
      'x-understudy-signature': `sha256=${signature}`,
    },
  };
}

/** Escapes the three characters that Slack reads as markup, so that a name becomes neither a link nor a mention. */
function escapeForSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** Posts a body. @returns the status of the answer, whose body is not read */
function post(
  url: URL,
  body: string,
  headers: Record<string, string>,
  targets: AlertTargets,
  signal: AbortSignal,
): Promise<number> {
  return new Promise((resolve, reject) => {
    targets.check(url.hostname);
    const request = url.protocol === 'https:' ? requestTls : requestPlain;
    const sent = request(
      url,
      { method: 'POST', headers, agent: false, lookup: targets.lookup, signal },
      (response) => {
        resolve(response.statusCode ?? 0);
        // The answer's body is not needed, so do not read it.
        response.destroy();
      },
    );
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Describes a failure by its code, because an error's message may contain the address. */
export function describeFailure(thrown: unknown, signal: AbortSignal): string {
  if (thrown instanceof TargetError) return thrown.message;
  if (signal.aborted) return 'it did not answer in time';
  const code = (thrown as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? `it could not be reached (${code})` : 'it could not be reached';
}
