/**
 * Labels the requests of an AWS SDK client (version 3) over any transport. The label is added to each attempt after
 * signing. So the signature does not cover the label, and the gateway can remove it. Any thread.
 */

import {
  currentScope,
  giveBack,
  hasLabel,
  isUnconnected,
  RUN_HEADER,
  SEQ_HEADER,
  state,
  takeLabel,
} from './scope.ts';

/** The SDK's request as its middleware receives it. */
interface AwsRequest {
  protocol: string;
  hostname: string;
  path: string;
  headers: Record<string, string>;
}

type Handler = (args: { input: never; request: unknown }) => Promise<never>;

/** The part of a client that is used: its middleware stack. */
interface AwsClient {
  middlewareStack: {
    add(middleware: (next: Handler) => Handler, options: Record<string, unknown>): void;
  };
}

/**
 * Makes a client label the model calls that it makes in a scope. A second call has no effect.
 * @returns the client
 */
export function labelAwsClient<Client extends { middlewareStack: object }>(client: Client): Client {
  const { middlewareStack } = client as unknown as AwsClient;
  // The position in the stack is after signing and inside the retry loop.
  middlewareStack.add(labelAttempt, {
    step: 'deserialize',
    priority: 'low',
    name: 'understudyLabel',
    override: true,
  });
  state.transports.add('aws-sdk');
  return client;
}

const labelAttempt =
  (next: Handler): Handler =>
  async (args) => {
    const request = args.request as AwsRequest;
    const scope = currentScope();
    if (scope === null || !isLabelled(request) || hasLabel(Object.keys(request.headers))) return next(args);
    const label = takeLabel(scope);
    const headers = { ...request.headers, [RUN_HEADER]: scope.run, [SEQ_HEADER]: String(label.seq) };
    const labelled = Object.assign(Object.create(Object.getPrototypeOf(request)), request, { headers });
    try {
      return await next({ ...args, request: labelled });
    } catch (error) {
      if (isUnconnected(error)) giveBack(label);
      throw error;
    }
  };

function isLabelled({ protocol, hostname, path }: AwsRequest): boolean {
  return state.hosts.labels(`${protocol}//${hostname}`, path);
}
