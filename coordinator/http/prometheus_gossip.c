#include "coordinator/http/prometheus_gossip.h"

void prometheus_gossip(struct exposition *out, const struct core *core)
{
    const struct core_gossip counts = core_gossip_counts(core);
    const struct exposition_family singles[] = {
        {"paceline_gossip_groups", "Groups that train apart, now.", EXPOSITION_GAUGE,
         (double)counts.training},
        {"paceline_gossip_gap_seconds_max",
         "Longest time between the ends of two steps of a group that trains.", EXPOSITION_GAUGE,
         counts.gap_seconds},
        {"paceline_gossip_matches_total", "Matches of two groups made.", EXPOSITION_COUNTER,
         (double)counts.matches},
        {"paceline_gossip_mixes_applied_total", "Mixes that groups have applied.",
         EXPOSITION_COUNTER, (double)counts.applied},
        {"paceline_gossip_mixes_expired_total", "Mixes that groups have abandoned.",
         EXPOSITION_COUNTER, (double)counts.expired},
        {"paceline_gossip_mixes_rejected_total",
         "Mixes of which a group has refused the other copy.", EXPOSITION_COUNTER,
         (double)counts.rejected},
        {"paceline_gossip_records_refused_total",
         "Reported records of mixes that cannot be of their job.", EXPOSITION_COUNTER,
         (double)counts.records_refused},
        {"paceline_gossip_averages_total", "Averages stored.", EXPOSITION_COUNTER,
         (double)counts.averages},
        {"paceline_gossip_mix_seconds_total", "Seconds of applied mixes, without waits.",
         EXPOSITION_COUNTER, counts.mix_seconds},
    };
    exposition_singles(out, singles, sizeof(singles) / sizeof(singles[0]));
}
