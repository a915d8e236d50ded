/** Rules of patterns and plans. */
import { describe, expect, it } from 'vitest';
import { modelFamily, ownScope } from '../../src/domain/pattern.ts';
import { capOf, DEFAULT_PLAN_CAPS } from '../../src/domain/plans.ts';

describe('the family of a model', () => {
  it.each([
    ['claude-sonnet-4-5-20250929', 'claude-sonnet'],
    ['claude-3-5-sonnet-latest', 'claude-sonnet'],
    ['us.anthropic.claude-3-7-sonnet-20250219-v1:0', 'claude-sonnet'],
    ['anthropic/claude-sonnet-4', 'claude-sonnet'],
    ['claude-opus-4-1@20250805', 'claude-opus'],
    ['claude-haiku-4-5', 'claude-haiku'],
    ['claude-2.1', 'claude'],
    ['gpt-4o', 'gpt-4o'],
    ['gpt-4o-mini-2024-07-18', 'gpt-4o'],
    ['openai/chatgpt-4o-latest', 'gpt-4o'],
    ['gpt-4.1-nano', 'gpt-4.1'],
    ['gpt-4-turbo', 'gpt-4'],
    ['gpt-5-codex', 'gpt-5'],
    ['o3-mini', 'o3'],
    ['gemini-2.5-pro', 'gemini-pro'],
    ['models/gemini-2.0-flash-exp', 'gemini-flash'],
    ['meta-llama/Llama-3.1-70B-Instruct', 'llama'],
    ['mistral-large-2407', 'mistral-large'],
    ['qwen2.5-coder-32b-instruct', 'qwen-coder'],
    ['deepseek-chat', 'deepseek'],
    ['amazon.nova-pro-v1:0', 'nova-pro'],
    ['', ''],
    ['   ', ''],
    ['2024-07-18', ''],
  ])('%s is of %s', (model, family) => {
    expect(modelFamily(model)).toBe(family);
  });

  it('is found also for an invalid name of a million characters', () => {
    expect(modelFamily('a-'.repeat(1_000_000))).toBe('a-a');
    expect(modelFamily('/'.repeat(1_000_000))).toBe('');
  });
});

describe('the scope of a pattern', () => {
  it('is the project if there is one, otherwise the commons', () => {
    expect(ownScope('org_1', 'proj_1')).toEqual({ tier: 'e1', org_id: 'org_1', project_id: 'proj_1' });
    expect(ownScope('org_1', null)).toEqual({ tier: 'e2', org_id: 'org_1', project_id: '' });
  });
});

describe('the intervention cap of a plan', () => {
  it('is the operator’s; an unknown plan has the free one, and no cap if there is no free plan', () => {
    expect(capOf(DEFAULT_PLAN_CAPS, 'pro')).toBe(500_000);
    expect(capOf(DEFAULT_PLAN_CAPS, 'enterprise')).toBeNull();
    expect(capOf(DEFAULT_PLAN_CAPS, 'gone')).toBe(50_000);
    expect(capOf(DEFAULT_PLAN_CAPS, '__proto__')).toBe(50_000);
    expect(capOf({ pro: 7 }, 'gone')).toBeNull();
    expect(capOf({ free: 0 }, 'free')).toBe(0);
  });
});
