/**
 * The services of deploy/compose-gateways.yaml as processes: two gateways, the API that shows their captures, and S3.
 */
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { makeFolder } from '../storage/folder.ts';
import { ComposeTopology, openModel } from './compose-topology.ts';

const KEY = 'static-key-of-the-operator';

it('the API shows the captures of both gateways', async () => {
  const model = await openModel();
  onTestFinished(() => {
    model.closeAllConnections();
    model.close();
  });
  const base = `http://127.0.0.1:${(model.address() as AddressInfo).port}`;
  const env = { SVC_KEYS: KEY, GW_UPSTREAM_BASE: base };
  const topology = await ComposeTopology.start('compose-gateways.yaml', makeFolder(), env, null);
  onTestFinished(() => topology[Symbol.asyncDispose]());
  const runs = ['of-gateway-1', 'of-gateway-2'];
  for (const run of runs) {
    const response = await fetch(`${topology.urlOf(run.slice('of-'.length))}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-api-key': 'none', 'x-svc-run': run },
      body: JSON.stringify({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hello' }] }),
    });
    expect(response.status).toBe(200);
    await response.arrayBuffer();
  }
  await topology.expectCaptured(runs, KEY);
});
