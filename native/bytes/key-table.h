/** How keys begin. Made by `node native/key-table.ts` from `src/redaction/key-shapes.ts`: change it there. */
#pragma once

namespace {

/** What makes a run suspect wherever it stands in it. */
const char* const kBeginnings[] = {
    "sk-", "AIza", "AKIA", "ASIA", "ABSK", "bedrock-api-key-", "gsk_", "hf_", "r8_", "xai-", "pplx-",
    "nvapi-", "tvly-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glptt-", "gldt-",
    "glrt-", "glcbt-", "glsoat-", "glft-", "glimt-", "glagent-", "xox", "xapp-", "svc_", "npm_", "sk_", "rk_",
    "pk_", "whsec_", "eyJ", "dop_v1_", "shp", "pypi-", "AGE-SECRET",
};

/** What does so where a token begins alone. */
const char* const kFirstWords[] = {
    "lin_api_", "lin_oauth_", "ntn_", "secret_", "dapi", "doo_v1_", "dor_v1_", "glsa_", "PMAK-", "ATATT3",
    "ATCTT3", "sbp_", "sb_secret_", "fm1a_", "fm1r_", "fm2_", "fo1_", "GOCSPX-", "IQoJb3JpZ2lu",
    "FwoGZXIvYXdz", "tgp_v1_", "lsv2_", "NRAK-", "HRKU-", "xkeysib-", "sntryu_", "dckr_", "figd_", "pscale_",
    "e2b_", "tskey-", "rubygems_",
};

/** The pairs of bytes that beginnings begin with, in groups. */
const char* const kPairGroups[] = {
    "AIAKASABAG", "gsghgigl", "sksvsh", "pppkpy", "r8rktv", "xaxowh", "nvnpey", "behfdo",
};

}  // namespace
