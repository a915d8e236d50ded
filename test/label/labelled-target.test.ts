/** Requests to which hosts and paths are labelled. */

import { describe, expect, it } from 'vitest';
import { isModelCall, LabelledHosts } from '../../src/label/labelled-target.ts';

describe('paths of model calls', () => {
  it.each([
    '/v1/messages',
    '/v1/messages?beta=true',
    '/v1/messages/',
    '/gateway/v1/messages',
    '/v1/chat/completions',
    '/v1/responses',
    '/v1/complete',
    '/gemini/v1beta/models/m:generateContent',
    '/v1beta/models/m:generateContent?key=k',
    '/v1beta/models/m%3AgenerateContent',
    '/v1beta/models/m:streamGenerateContent?alt=sse',
    '/bedrock/us-east-1/model/us.demo.large-v1%3A0/converse',
    '/bedrock/us-east-1/model/arn%3Aaws%3Abedrock%3A1%3Ap%2Fx/converse-stream',
    '/model/m/invoke',
    '/model/m/invoke-with-response-stream',
  ])('%s is one', (path) => expect(isModelCall(path)).toBe(true));

  it.each([
    '/',
    '/v1/messages/count_tokens',
    '/v1/messages/batches',
    '/v1/messagesx',
    '/v2/messages',
    '/messages',
    '/v1/responses/resp_1',
    '/v1/completions',
    '/v1/embeddings',
    '/v1/models',
    '/v1beta/models/m:countTokens',
    '/v1beta/models/m:embedContent',
    '/v1beta/models/m:batchGenerateContent',
    '/search?next=/v1/messages',
    '/search?q=m:generateContent',
    '/model/m/count-tokens',
    '/model/invoke',
    '/v1/monitor/runs',
  ])('%s is not one', (path) => expect(isModelCall(path)).toBe(false));
});

describe('hosts', () => {
  const hosts = new LabelledHosts(['models.example.com', 'Proxy.Example.org:8443', '2001:db8::7']);

  it.each([
    'localhost',
    'LOCALHOST',
    'agents.localhost',
    '127.0.0.1',
    '127.8.9.1',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.1.1',
    '::1',
    '[::1]',
    '::',
    '::ffff:10.0.0.1',
    'fd00::1',
    'fe80::1',
    'gateway',
    'model-gateway_2',
    'gateway.local',
    'gateway.local.',
    'gateway.internal',
    'host.docker.internal',
    'models.example.com',
    'MODELS.example.com.',
    'proxy.example.org',
    '2001:db8::7',
  ])('%s is labelled', (host) => {
    expect(hosts.has(host)).toBe(true);
    expect(hosts.has(host)).toBe(true);
  });

  it.each([
    'api.anthropic.com',
    'example.com',
    'a.models.example.com',
    'local.example.com',
    'localhost.example.com',
    'internal.com',
    '8.8.8.8',
    '11.0.0.1',
    '172.15.0.1',
    '172.32.0.1',
    '192.169.0.1',
    '2001:db8::8',
    '::ffff:8.8.8.8',
    // The system's resolver reads this number as the address 8.8.8.8.
    '134744072',
    '0x08080808',
    '',
  ])('%j is not labelled', (host) => expect(hosts.has(host)).toBe(false));

  it('are found in origins, and in addresses requested from a proxy', () => {
    expect(hosts.labels('http://127.0.0.1:8787', '/v1/messages')).toBe(true);
    expect(hosts.labels('http://[::1]:8787', '/v1/messages')).toBe(true);
    expect(hosts.labels('https://api.anthropic.com', '/v1/messages')).toBe(false);
    expect(hosts.labels('http://127.0.0.1:8787', '/v1/models')).toBe(false);
    expect(hosts.labels('http://proxy.local:3128', 'http://api.anthropic.com/v1/messages')).toBe(false);
    expect(hosts.labels('http://proxy.example.com:3128', 'http://gateway:8787/v1/messages?x')).toBe(true);
  });

  it('are cached in limited number, except for configured ones', () => {
    for (let n = 0; n < 3_000; n++) expect(hosts.has(`h${n}.example.net`)).toBe(false);
    expect(hosts.has('models.example.com')).toBe(true);
  });
});
