/** Names and ids of exported spans, checked against the conventions' own package and the W3C's recommendation. */
import * as incubating from '@opentelemetry/semantic-conventions/incubating';
import { describe, expect, it } from 'vitest';
import { joinTracesPath, readPairs } from '../../src/domain/otel-settings.ts';
import { GEN_AI, GENERAL, PROVIDER_NAMES } from '../../src/otel/conventions.ts';
import { readTraceParent, spanIdOf, traceIdOf } from '../../src/otel/trace-context.ts';

const published = incubating as unknown as Record<string, unknown>;

describe('the names', () => {
  it('are those that the conventions publish', () => {
    for (const [name, value] of Object.entries(GEN_AI)) expect(published[`ATTR_GEN_AI_${name}`]).toBe(value);
    const all = new Set(Object.values(published));
    for (const name of Object.values(GENERAL)) expect(all, name).toContain(name);
    for (const name of Object.values(PROVIDER_NAMES)) expect(all, name).toContain(name);
  });
});

describe('a traceparent', () => {
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  const span = '00f067aa0ba902b7';
  const read = (...values: string[]) =>
    readTraceParent(values.map((value): [string, string] => ['Traceparent', value]));

  it('is read as the recommendation says', () => {
    expect(read(`00-${trace}-${span}-01`)).toEqual({ trace_id: trace, span_id: span, flags: 1, state: '' });
    expect(read(`cc-${trace}-${span}-00-what-the-future-brings`)).toMatchObject({
      trace_id: trace,
      flags: 0,
    });
    for (const wrong of [
      '',
      `ff-${trace}-${span}-01`,
      `00-${'0'.repeat(32)}-${span}-01`,
      `00-${trace}-${'0'.repeat(16)}-01`,
      `00-${trace.toUpperCase()}-${span}-01`,
      `00-${trace}-${span}-01-more`,
      `00-${trace}-${span}`,
    ])
      expect(read(wrong), wrong).toBe(null);
    expect(read(`00-${trace}-${span}-01`, `00-${trace}-${span}-01`)).toBe(null);
  });

  it('includes its state, unless that is too long', () => {
    const state = (value: string) =>
      readTraceParent([
        ['traceparent', `00-${trace}-${span}-01`],
        ['tracestate', value],
        ['tracestate', 'b=2'],
      ])?.state;
    expect(state('a=1')).toBe('a=1,b=2');
    expect(state('a'.repeat(600))).toBe('');
  });
});

describe('an id', () => {
  it('is the same for the same name, and has the required length', () => {
    expect(traceIdOf('a')).toMatch(/^[\da-f]{32}$/);
    expect(spanIdOf('a')).toMatch(/^[\da-f]{16}$/);
    expect(traceIdOf('a')).toBe(traceIdOf('a'));
    expect(traceIdOf('a')).not.toBe(traceIdOf('b'));
  });
});

describe('the address for all signals', () => {
  it('gets the path of the signal after its own path', () => {
    expect(joinTracesPath('http://c:4318')).toBe('http://c:4318/v1/traces');
    expect(joinTracesPath('http://c:4318/')).toBe('http://c:4318/v1/traces');
    expect(joinTracesPath('https://c/otlp/')).toBe('https://c/otlp/v1/traces');
    expect(joinTracesPath('https://c/otlp?tenant=a')).toBe('https://c/otlp/v1/traces?tenant=a');
  });
});

describe('headers and attributes', () => {
  it('are pairs with commas between them, percent-encoded', () => {
    expect(readPairs('a=1, b=x%3Dy%2Cz ,c=')).toEqual([
      ['a', '1'],
      ['b', 'x=y,z'],
      ['c', ''],
    ]);
    for (const wrong of ['a', '=1', 'a=%zz']) expect(readPairs(wrong), wrong).toBe(null);
  });
});
