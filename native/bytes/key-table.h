/** How keys begin. Made by `node native/key-table.ts` from `src/redaction/key-shapes.ts`: change it there. */
#pragma once

namespace {

/** Beginnings that make a run suspect at any position. */
const char* const kBeginnings[] = {
    "sk-", "AIza", "AKIA", "ASIA", "ABSK", "bedrock-api-key-", "gsk_", "hf_", "r8_", "xai-", "pplx-",
    "nvapi-", "tvly-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glptt-", "gldt-",
    "glrt-", "glcbt-", "glsoat-", "glft-", "glimt-", "glagent-", "xox", "xapp-", "svc_", "npm_", "sk_", "rk_",
    "pk_", "whsec_", "eyJ", "dop_v1_", "shp", "pypi-", "AGE-SECRET", "fw_", "SK0", "SK1", "SK2", "SK3", "SK4",
    "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd", "SKe", "SKf",
};

/** Beginnings that make a run suspect only where a token begins. */
const char* const kFirstWords[] = {
    "lin_api_", "lin_oauth_", "ntn_", "secret_", "dapi", "doo_v1_", "dor_v1_", "glsa_", "PMAK-", "ATATT3",
    "ATCTT3", "sbp_", "sb_secret_", "fm1a_", "fm1r_", "fm2_", "fo1_", "GOCSPX-", "IQoJb3JpZ2lu",
    "FwoGZXIvYXdz", "tgp_v1_", "lsv2_", "NRAK-", "HRKU-", "xkeysib-", "sntryu_", "dckr_", "figd_", "pscale_",
    "e2b_", "tskey-", "rubygems_", "vcp_", "vci_", "vca_", "vcr_", "vck_", "key-0", "key-1", "key-2", "key-3",
    "key-4", "key-5", "key-6", "key-7", "key-8", "key-9", "key-a", "key-b", "key-c", "key-d", "key-e",
    "key-f", "sq0atp-", "sq0csp-", "EAAA", "GR1348941", "ATBB", "sess-", "apify_api_", "bb_live_",
    "wandb_v1_", "duffel_live_", "shippo_live_", "nfp_", "napi_", "rnd_", "bkua_", "phx_", "jina_", "pul-",
    "llx-", "CFPAT-", "CCIPAT_", "sqp_", "squ_", "sqa_",
};

/** The pairs of bytes with which beginnings start, in groups. */
const char* const kPairGroups[] = {
    "AIAKASABAG", "gsghgigl", "sksvshfw", "pppkpySK", "r8rktv", "xaxowh", "nvnpey", "behfdo",
};

}  // namespace
